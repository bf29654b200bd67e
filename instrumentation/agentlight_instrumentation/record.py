"""From one exchange to the span that records it: status, tokens, effective settings, fitness for training."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentlight_instrumentation import servers
from agentlight_instrumentation.routing import policy_for
from agentlight_instrumentation.sampled import fill
from agentlight_instrumentation.verdict import NOT_UNDERSTOOD, why_not_trainable
from agentlight_store.redaction import redacted
from agentlight_store.span import Span

if TYPE_CHECKING:
    from agentlight_instrumentation.exchange import Exchange

REFUSED = (401, 403, 407)  # servers then quote the key that they were given: what they say is not recorded


def span_of(exchange: Exchange, reader: Any, error: BaseException | None, left_early: bool) -> Span:
    """`reader` has been fed with all that arrived; `left_early`: the agent did not want the rest."""
    edit = exchange.edit
    asked = exchange.dialect.read_request(exchange.parsed, urlsplit(exchange.url).path)
    model = edit.model or asked["model"]
    info = servers.find(edit.url)
    served = ((info or {}).get("models") or {}).get(model) or {}
    span = Span(
        role=exchange.role,
        pid=os.getpid(),
        dialect=exchange.name,
        server=urlsplit(servers.origin(edit.url)).netloc,
        model=model,
        model_root=served.get("root"),
        policy_version=model if served.get("adapter") else None,
        adapter_root=served.get("adapter"),
        messages=asked["messages"],
        tools=asked["tools"],
        prompt_ids=reader.prompt_ids,
        choices=reader.choices(),
        sampling=servers.effective_sampling(asked["sampling"], info, model),
        usage=reader.usage,
        http_status=exchange.http_status,
        trace=exchange.trace,
        started_at=exchange.started_at,
        ended_at=time.time(),
    )
    understood = bool(span.choices)
    unfit = fill(span, exchange.sampled) if exchange.sampled else None
    span.status, span.error = _status(exchange, reader, span, error, left_early)
    if span.status == "ok":
        unfit = exchange.broken or (None if understood else NOT_UNDERSTOOD) or _not_rerouted(exchange) or unfit
        if exchange.broken or not understood:
            span.raw = exchange.kept or None
    else:
        unfit = None
    if span.status == "ok" and span.prompt_ids is None:
        unfit = unfit or exchange.untouched
    silent = servers.why_unknown(edit.url) if info is None else None
    span.reason = unfit or why_not_trainable(span, info, reader.why_no_ids, silent)
    span.trainable = span.reason is None
    return span


def _status(
    exchange: Exchange, reader: Any, span: Span, error: BaseException | None, left_early: bool
) -> tuple[str, str | None]:
    if error is not None and (exchange.http_status is None or exchange.http_status >= 400):
        return "error", type(error).__name__  # its text may hold a URL with a key in it
    if exchange.http_status is not None and exchange.http_status >= 400:
        said = None if exchange.http_status in REFUSED else reader.error
        return "error", redacted(said) if said else f"HTTP {exchange.http_status}"
    if reader.error is not None:
        return "error", redacted(reader.error)
    unfinished = exchange.comes_in_pieces and any(choice.finish_reason is None for choice in span.choices)
    if error is not None or unfinished or (left_early and not span.choices):
        return "partial", None if error is None else type(error).__name__
    return "ok", None


def _not_rerouted(exchange: Exchange) -> str | None:
    if exchange.dialect.SPOKEN_BY_VLLM or policy_for(exchange.role, exchange.rollout_id) is None:
        return None
    return f"not rerouted: a policy server does not speak {exchange.name}, the call went to the agent's own server"
