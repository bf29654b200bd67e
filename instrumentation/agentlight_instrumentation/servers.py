"""What is known of the servers that calls go to: whether they give token ids, and what they serve and default to."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agentlight_instrumentation import settings

FIELD = "agentlight_tokens"  # by which a server with agentlight_run.tokens says that it has it, and is asked for tokens
# Public APIs are never asked what they are and their requests are left as they are.
PUBLIC_HOSTS = (
    "openai.com", "openai.azure.com", "anthropic.com", "googleapis.com", "mistral.ai", "groq.com", "together.xyz",
    "together.ai", "openrouter.ai", "deepseek.com", "x.ai", "cohere.com", "fireworks.ai", "perplexity.ai",
    "amazonaws.com", "azure.com", "cerebras.ai", "nvidia.com", "huggingface.co",
)  # fmt: skip
# What vLLM samples with when neither the request nor the model's generation_config.json says otherwise.
NEUTRAL = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
    "frequency_penalty": 0.0, "presence_penalty": 0.0,
}  # fmt: skip
MODEL_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

_known: dict[str, dict[str, Any]] | None = None
_first: dict[str, dict[str, dict[str, Any]]] = {}
_asked: set[tuple[str, str]] = set()
_silent: dict[str, _Silence] = {}  # origin -> how the last question to it failed
QUESTION = 10.0  # seconds that a question may take; the agent waits for it
# A server that could not be asked is asked again after so many seconds: perhaps it was only starting. Each failure
# doubles them.
PATIENCE, MOST_PATIENCE = 30.0, 600.0


class _Silence(NamedTuple):
    why: str
    seconds: float
    until: float  # of the monotonic clock


@lru_cache(256)
def origin(url: str) -> str:
    """scheme://host:port, without user-info, path and query."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{parts.hostname}:{port}"


@lru_cache(256)
def is_public(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return any(host == public or host.endswith("." + public) for public in PUBLIC_HOSTS)


def find(url: str) -> dict[str, Any] | None:
    """What is known of the server behind `url`; None when nobody has asked it yet."""
    return _table().get(origin(url))


def remember(url: str, info: dict[str, Any]) -> None:
    _table()[origin(url)] = info


def worth_asking(url: str, model: str) -> bool:
    """True until the server has answered for the model: when it is new, or serves a model that it did not before.

    Calls that run at the same time ask each for itself: one that did not wait would go out without our fields.
    """
    info = find(url)
    failed = _silent.get(origin(url))
    if failed is not None and time.monotonic() < failed.until:
        return False
    if is_public(url) or (info is not None and (not info["vllm"] or model in info["models"])):
        return False
    return (origin(url), model) not in _asked


def answered(url: str, model: str, status: int, body: bytes) -> None:
    """Remember what GET /v1/models said; a server that has no such path is no vLLM server."""
    if status >= 500 or status == 429:
        return did_not_answer(url, f"HTTP {status}")
    _asked.add((origin(url), model))
    _silent.pop(origin(url), None)
    import json

    try:
        models = json.loads(body) if status == 200 else {}
    except ValueError:
        models = {}
    remember(url, describe(models if isinstance(models, dict) else {}))


def did_not_answer(url: str, why: str) -> None:
    """The question has failed: calls go out as they are until it is asked again."""
    before = _silent.get(origin(url))
    seconds = PATIENCE if before is None else min(2 * before.seconds, MOST_PATIENCE)
    _silent[origin(url)] = _Silence(why, seconds, time.monotonic() + seconds)


def why_unknown(url: str) -> str | None:
    """With what error the server could last not be asked what it is."""
    failed = _silent.get(origin(url))
    return None if failed is None else failed.why


def describe(models: Any, logprobs_mode: str | None = None, *, generation_defaults: bool = True) -> dict[str, Any]:
    """From the reply of GET /v1/models to what capture needs to know.

    `logprobs_mode` is "processed" or "raw" where the caller knows it. `generation_defaults` is False for a
    server that ignores the models' generation_config.json. A model whose folder cannot be read has defaults
    None: its unset sampling settings are unknown.
    """
    entries = [entry for entry in models.get("data") or [] if isinstance(entry, dict) and entry.get("id")]
    roots = {entry["id"]: entry.get("root") for entry in entries}
    described = {}
    for entry in entries:
        parent = entry.get("parent")
        root = roots.get(parent) if parent else entry.get("root")
        described[entry["id"]] = {
            "root": root,
            "adapter": entry.get("root") if parent else None,
            "defaults": _defaults(root) if generation_defaults else {},
        }
    vllm = any(entry.get("owned_by") == "vllm" for entry in entries)
    tokens = models.get(FIELD) is True
    return {"vllm": vllm, "tokens": tokens, "logprobs_mode": logprobs_mode, "models": described}


def effective_sampling(requested: dict[str, Any], info: dict[str, Any] | None, model: str) -> dict[str, Any]:
    """The settings that were sampled with, as far as they are known; an unknown one is absent."""
    sampling = {key: value for key, value in requested.items() if value is not None}
    if sampling.get("top_k") == -1:
        sampling["top_k"] = 0  # two ways to say "all"
    if info is not None and info["vllm"]:
        defaults = (info["models"].get(model) or {}).get("defaults")
        if defaults is not None:
            sampling = {**NEUTRAL, **defaults, **sampling}
        if info["logprobs_mode"] is not None:
            sampling["logprobs_mode"] = info["logprobs_mode"]
    return sampling


def _table() -> dict[str, dict[str, Any]]:
    global _known
    if _known is not None:
        return _known
    given = settings.get(settings.SERVERS)
    known: dict[str, dict[str, Any]] = {}
    if given is not None:
        import json

        known = json.loads(given)
    # Of threads that come at once one makes the table: what another put into its own would be lost.
    _known = _first.setdefault("table", known)
    return _known


def _defaults(root: str | None) -> dict[str, Any] | None:
    if root is None or not os.path.isdir(root):
        return None
    import json

    try:
        with open(os.path.join(root, "generation_config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return None
    return {name: config[name] for name in MODEL_DEFAULTS if config.get(name) is not None}
