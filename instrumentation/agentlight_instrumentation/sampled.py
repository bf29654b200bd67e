"""What a server that agentlight started tells of a call, whatever the wire format: asked for, read and taken out."""

from __future__ import annotations

from typing import Any

import msgspec

from agentlight_instrumentation.payload import ids_of, logprobs_of
from agentlight_instrumentation.servers import FIELD
from agentlight_store.span import Choice, Span

MARK = b'{"' + FIELD.encode() + b'":true'  # how the request of one who asks begins
EVENT = b'{"' + FIELD.encode() + b'":'  # how the one event begins that a stream has more
_MEMBER = b',"' + FIELD.encode() + b'":'  # before the value that a whole reply has more, as its last member


class _Choice(msgspec.Struct):
    index: int
    token_ids: list[int]
    logprobs: list[float]


class Generation(msgspec.Struct):
    """One prompt, and what was sampled from it with which settings."""

    prompt_token_ids: list[int]
    choices: list[_Choice]
    sampling: dict[str, Any]


_generations = msgspec.json.Decoder(list[Generation])


def from_event(payload: bytes) -> list[Generation]:
    """Raises msgspec.DecodeError."""
    return _generations.decode(payload[len(EVENT) : -1])


def split(body: bytes) -> tuple[bytes, list[Generation]]:
    """A whole reply as it would have come, and what it told. Raises msgspec.DecodeError.

    The member is the last one, and inside a JSON string its quotes would be escaped: its place is certain.
    """
    start = body.rfind(_MEMBER)
    if start < 0:
        return body, []
    return body[:start] + b"}", _generations.decode(body[start + len(_MEMBER) : -1])


def fill(span: Span, generations: list[Generation]) -> str | None:
    """Put the tokens into the span; returns why that cannot be done."""
    if len(generations) != 1:
        return f"the server made {len(generations)} generations for one call"
    (generation,) = generations
    mode = str(generation.sampling.get("logprobs_mode"))
    if mode.endswith("logits"):
        return f"the server gives {mode}, no log-probs: --logprobs-mode processed_logprobs"
    choices = {choice.index: choice for choice in span.choices}
    try:
        _fill(span, generation, choices)
    except ValueError as error:
        return str(error)
    return None


def _fill(span: Span, generation: Generation, choices: dict[int, Choice]) -> None:
    span.prompt_ids = ids_of(generation.prompt_token_ids)
    for sampled in generation.choices:
        choice = choices.setdefault(sampled.index, Choice(sampled.index))
        choice.completion_ids, choice.completion_logprobs = ids_of(sampled.token_ids), logprobs_of(sampled.logprobs)
    span.choices = [choices[index] for index in sorted(choices)]
    span.sampling |= generation.sampling
