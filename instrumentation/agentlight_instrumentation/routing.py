"""Where a call goes: the agent's own server, or the policy named by --policy; and what is changed of its request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentlight_instrumentation import settings

# Everything that may carry the user's key for another host.
SECRET_HEADERS = (
    "authorization", "proxy-authorization", "cookie", "api-key", "x-api-key", "x-goog-api-key",
    "openai-organization", "openai-project",
)  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """The request as it is sent: `body` None means the agent's own bytes, `dropped_headers` are left out."""

    url: str
    body: bytes | None = None
    model: str | None = None
    dropped_headers: tuple[str, ...] = ()
    added: dict[str, Any] = field(default_factory=dict)
    original: bytes = b""

    @property
    def changes(self) -> bool:
        return self.body is not None or bool(self.dropped_headers)

    @property
    def headers(self) -> dict[str, str]:
        """Headers to set: a reply that will be rewritten must arrive uncompressed."""
        return {"accept-encoding": "identity"} if self.added else {}

    def adding(self, fields: dict[str, Any]) -> Edit:
        """With `fields` in front of the JSON object's own; the agent's bytes stay as they are."""
        body = (self.body or self.original).lstrip()
        if not fields or not body.startswith(b"{"):
            return self
        front = msgspec.json.encode(fields)[:-1]
        rest = body[1:].lstrip()
        separator = b"" if rest.startswith(b"}") else b","
        return replace(self, body=front + separator + rest, added=fields)


def route(url: str, suffix: str, body: bytes, parsed: dict[str, Any]) -> Edit:
    """To the policy when there is one: its URL, its model's name, and no header that could hold a key."""
    policy = settings.get(settings.POLICY)
    if policy is None:
        return Edit(url=url, original=body)
    base = policy.rstrip("/")
    if not urlsplit(base).path:
        base += "/v1"
    model = settings.get(settings.POLICY_MODEL)
    routed = body if model is None else msgspec.json.encode({**parsed, "model": model})
    return Edit(url=base + suffix, body=routed, model=model, dropped_headers=SECRET_HEADERS, original=routed)
