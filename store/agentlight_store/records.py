"""A span to its bytes and back: one msgpack list, with tokens, messages and settings as references into chains."""

from __future__ import annotations

from typing import Any

from agentlight_store.chains import ROOT, TokenTips, put_list, read_list, read_tokens
from agentlight_store.packing import (
    floats_from_bytes,
    floats_to_bytes,
    ids_from_bytes,
    ids_to_bytes,
    pack,
    unpack,
)
from agentlight_store.span import Choice, Span

# Fields that are kept as they are. An allow-list: nothing else of a request or reply reaches the disk.
# The settings of a run's calls are mostly the same: stored once, and referred to.
SETTINGS = ("role", "dialect", "server", "model", "model_root", "policy_version", "adapter_root", "sampling")
OUTCOME = ("pid", "usage", "status", "trainable", "reason", "http_status", "started_at", "ended_at", "error")
# At the end, and only as far as a span has them: most have none.
RARE = ("raw", "trace")


def write_span(txn: Any, tips: TokenTips, rollout: bytes, span: Span) -> bytes:
    """Store what the span refers to and return the span's own bytes."""
    prompt, prompt_key = b"", None
    if span.prompt_ids is not None:
        prompt = ids_to_bytes(span.prompt_ids)
        prompt_key = tips.put(txn, rollout, prompt)
    record = [
        put_list(txn, [[getattr(span, name) for name in SETTINGS]]),
        put_list(txn, span.messages),
        None if span.tools is None else put_list(txn, span.tools),
        prompt_key,
        [_write_choice(txn, tips, rollout, prompt_key or ROOT, prompt, choice) for choice in span.choices],
        *(getattr(span, name) for name in OUTCOME),
    ]
    rare = [getattr(span, name) for name in RARE]
    while rare and rare[-1] is None:
        rare.pop()
    return pack(record + rare)


def _write_choice(
    txn: Any,
    tips: TokenTips,
    rollout: bytes,
    prompt_key: bytes,
    prompt: bytes,
    choice: Choice,
) -> list[Any]:
    completion_key, num_tokens = None, 0
    if choice.completion_ids is not None:
        ids = ids_to_bytes(choice.completion_ids)
        completion_key, num_tokens = tips.extend(txn, rollout, prompt_key, prompt, ids), len(ids) // 4
    logprobs = None if choice.completion_logprobs is None else floats_to_bytes(choice.completion_logprobs)
    said = [choice.index, choice.text, choice.tool_calls, choice.finish_reason]
    return [*said, completion_key, num_tokens, logprobs]


class SpanReader:
    """Reads the spans of one rollout; remembers shared segments, so that T turns cost O(T) look-ups."""

    def __init__(self, txn: Any) -> None:
        self._txn = txn
        self._tokens: dict[bytes, bytes] = {}
        self._lists: dict[bytes, list[Any]] = {}

    def read(self, rollout_id: str, span_id: str, data: bytes) -> Span:
        """Raises StoreError where a segment or message that the span refers to is missing."""
        settings, messages, tools, prompt, choices, *outcome = unpack(data)
        (values,) = self._list(settings)
        fields = dict(zip(SETTINGS, values, strict=True)) | dict(zip((*OUTCOME, *RARE), outcome, strict=False))
        return Span(
            span_id=span_id,
            rollout_id=rollout_id,
            messages=self._list(messages),
            tools=None if tools is None else self._list(tools),
            prompt_ids=None if prompt is None else self._ids(prompt),
            choices=[self._choice(choice) for choice in choices],
            **fields,
        )

    def _choice(self, record: list[Any]) -> Choice:
        *said, completion_key, num_tokens, logprobs = record
        choice = Choice(*said)
        if completion_key is not None:
            ids = self._ids(completion_key)
            choice.completion_ids = ids[len(ids) - num_tokens :]
        if logprobs is not None:
            choice.completion_logprobs = floats_from_bytes(logprobs)
        return choice

    def _ids(self, key: bytes) -> Any:
        return ids_from_bytes(read_tokens(self._txn, key, self._tokens))

    def _list(self, key: bytes) -> list[Any]:
        return read_list(self._txn, key, self._lists)
