"""Spans made by hand, for tests of what reads them."""

from __future__ import annotations

from array import array
from typing import Any

from agentlight_store import Choice, Span


def make_span(
    prompt: list[int] | None = None, completion: list[int] | None = None, *, started_at: float = 1.0, **fields: Any
) -> Span:
    """A trainable call with log-probs -0.5, -1.0, -1.5, ... ; `fields` are set on it."""
    prompt = [1, 2, 3] if prompt is None else prompt
    completion = [4, 5] if completion is None else completion
    logprobs = array("f", [-0.5 * (number + 1) for number in range(len(completion))])
    span = Span(
        dialect="openai_chat", server="127.0.0.1:1", model="smol", messages=[{"role": "user", "content": "hi"}],
        prompt_ids=array("I", prompt), choices=[Choice(0, "text", None, "stop", array("I", completion), logprobs)],
        sampling={"temperature": 1.0}, trainable=True, http_status=200, started_at=started_at, ended_at=started_at + 1,
    )  # fmt: skip
    for name, value in fields.items():
        setattr(span, name, value)
    return span
