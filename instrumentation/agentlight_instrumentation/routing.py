"""Where a call goes: the agent's own server, or the policy named by --policy; and what is changed of its request."""

from __future__ import annotations

from binascii import b2a_base64
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from agentlight_instrumentation import settings
from agentlight_instrumentation.sampling import arm_of

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
    authorization: str | None = None  # for the server that `url` leads to, in place of the agent's

    @property
    def changes(self) -> bool:
        return self.body is not None or bool(self.dropped_headers)

    @property
    def headers(self) -> dict[str, str]:
        """Headers to set: a reply that will be rewritten must arrive uncompressed."""
        headers = {"accept-encoding": "identity"} if self.added else {}
        return headers if self.authorization is None else {**headers, "authorization": self.authorization}

    def adding(self, fields: dict[str, Any]) -> Edit:
        """With `fields` in front of the JSON object's own; the agent's bytes stay as they are."""
        body = (self.body or self.original).lstrip()
        if not fields or not body.startswith(b"{"):
            return self
        front = msgspec.json.encode(fields)[:-1]
        rest = body[1:].lstrip()
        separator = b"" if rest.startswith(b"}") else b","
        return replace(self, body=front + separator + rest, added=fields)


class Policy(msgspec.Struct, frozen=True):
    """A server that calls are sent to, and the model to ask it for (None: the one that the agent asks for)."""

    url: str
    model: str | None = None


@lru_cache(8)
def _policies(text: str) -> dict[str, Policy]:
    return msgspec.json.decode(text, type=dict[str, Policy])


def policy_for(role: str, rollout_id: str) -> Policy | None:
    """That of the role, else that of all; None where the calls of this role or rollout stay the agent's own."""
    if arm_of(rollout_id, settings.get(settings.CANARY)) == "own":
        return None
    own = settings.get(settings.POLICIES)
    if own is not None and (found := _policies(own).get(role)) is not None:
        return found
    url = settings.get(settings.POLICY)
    return None if url is None else Policy(url, settings.get(settings.POLICY_MODEL))


def route(url: str, suffix: str, body: bytes, parsed: dict[str, Any], policy: Policy | None) -> Edit:
    """To the policy when there is one: its URL, its model's name, and no header that could hold a key."""
    if policy is None:
        return Edit(url=url, original=body)
    base, authorization = address(policy.url)
    routed = body if policy.model is None else msgspec.json.encode({**parsed, "model": policy.model})
    return Edit(
        url=base + suffix, body=routed, model=policy.model, dropped_headers=SECRET_HEADERS, original=routed,
        authorization=authorization,
    )  # fmt: skip


@lru_cache(8)
def address(url: str) -> tuple[str, str | None]:
    """A server's base URL without its user-info, with the path /v1 when it has none; the header made of user-info."""
    parts = urlsplit(url.rstrip("/"))
    user, at, host = parts.netloc.rpartition("@")
    base = parts._replace(netloc=host, path=parts.path or "/v1").geturl()
    if not at:
        return base, None
    pair = unquote(user if ":" in user else user + ":").encode()
    return base, "Basic " + b2a_base64(pair, newline=False).decode()
