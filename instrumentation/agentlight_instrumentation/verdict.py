"""Whether a call's token ids and log-probs add up; the one place that decides `trainable`."""

from __future__ import annotations

from typing import Any

from agentlight_store.span import Span

NOT_UNDERSTOOD = "the reply has no choices"


def why_not_trainable(
    span: Span, info: dict[str, Any] | None, why_no_ids: str = "no token ids in the reply", silent: str | None = None
) -> str | None:
    """The reason why the call cannot be trained on, with both numbers where two disagree; None when it can.

    `why_no_ids` is the reason of a vLLM server whose reply has none, `silent` the error with which a server could not
    be asked what it is.
    """
    if span.status == "error":
        return f"the call failed: {span.error}"
    if span.status == "partial":
        return "the reply was not received to its end"
    if not span.choices:
        return NOT_UNDERSTOOD
    if span.prompt_ids is None or any(choice.completion_ids is None for choice in span.choices):
        known = info is not None and info["vllm"]
        if silent:
            return f"no token ids: {span.server} could not be asked what it is ({silent})"
        return why_no_ids if known else f"no token ids: {span.server} is no vLLM server"
    for choice in span.choices:
        ids, logprobs = choice.completion_ids or (), choice.completion_logprobs
        if logprobs is None:
            return "no log-probs in the reply"
        if len(ids) != len(logprobs):
            return f"{len(ids)} completion ids but {len(logprobs)} log-probs"
        if not ids:
            return "the completion has no tokens"
    counted = {"input_tokens": len(span.prompt_ids), "output_tokens": span.completion_tokens}
    for name, count in counted.items():
        if span.usage.get(name, count) != count:
            return f"usage says {span.usage[name]} {name.replace('_', ' ')}, the reply has {count} ids"
    return None
