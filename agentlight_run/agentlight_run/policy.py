"""The server that the agent's calls are sent to, and what it says it serves."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentlight_instrumentation import servers
from agentlight_instrumentation.routing import address
from agentlight_store.errors import AgentlightError
from agentlight_store.redaction import redacted

LOCAL = ("127.0.0.1", "localhost", "::1")
PATIENCE = 5.0  # seconds for one answer


class PolicyError(AgentlightError):
    """The policy server does not answer, or does not serve what was asked for."""


@dataclass(frozen=True)
class Policy:
    """`url` is the base URL that an SDK would be given; `servers` goes to the agent, which then need not ask."""

    url: str
    model: str
    servers: dict[str, Any]

    @property
    def is_local(self) -> bool:
        return urlsplit(self.url).hostname in LOCAL

    @property
    def gives_token_ids(self) -> bool:
        return all(info["vllm"] for info in self.servers.values())


def probe(url: str, model: str | None = None, *, logprobs_mode: str | None = None) -> Policy:
    """Ask the server what it serves, and choose `model`, or the one base model that there is.

    `logprobs_mode` is "processed" for a server that we started ourselves, which ignores generation_config.json.
    Raises PolicyError.
    """
    base = base_url(url)
    models = _get_models(base)
    info = servers.describe(models, logprobs_mode, generation_defaults=logprobs_mode is None)
    served: dict[str, dict[str, Any]] = info["models"]
    if model is None:
        bases = [name for name, one in served.items() if one["adapter"] is None]
        if len(bases) != 1:
            raise PolicyError(f"{redacted(url)} serves {_listed(served)}: choose one with --policy-model")
        model = bases[0]
    elif model not in served:
        raise PolicyError(f"{redacted(url)} does not serve {model!r}; it serves {_listed(served)}")
    return Policy(base, model, {servers.origin(base): info})


def base_url(url: str) -> str:
    """With the path /v1 when it has none. Raises PolicyError for what is no http URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PolicyError(f"{redacted(url)!r} is no URL of a server; give one like http://127.0.0.1:8000")
    base = url.rstrip("/")
    return base if urlsplit(base).path else base + "/v1"


def get(url: str, seconds: float = PATIENCE) -> bytes:
    """The body of a reply with status 200; raises OSError or HTTPException. This machine is asked without a proxy."""
    handlers = [urllib.request.ProxyHandler({})] if urlsplit(url).hostname in LOCAL else []
    url, authorization = address(url)
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    with urllib.request.build_opener(*handlers).open(request, timeout=seconds) as reply:
        return reply.read()


def _get_models(base: str) -> dict[str, Any]:
    asked = redacted(base)
    try:
        models = json.loads(get(base + "/models"))
    except urllib.error.HTTPError as error:
        raise PolicyError(f"{asked}/models answered with HTTP status {error.code}; is this an LLM server?") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise PolicyError(f"no answer from {asked}/models ({reason}); is the policy server running?") from None
    except ValueError:
        raise PolicyError(f"{asked}/models did not answer with JSON; is this an LLM server?") from None
    if not isinstance(models, dict) or not models.get("data"):
        raise PolicyError(f"{asked}/models lists no model; is this an LLM server?")
    return models


def _listed(served: dict[str, Any]) -> str:
    return ", ".join(sorted(served)) or "no model"
