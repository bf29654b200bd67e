"""A span to its bytes and back: scalars in one msgpack map, tokens and messages as references into chains."""

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
SCALARS = (
    "role", "pid", "dialect", "server", "model", "model_root", "policy_version", "adapter_root", "sampling", "usage",
    "status", "trainable", "reason", "http_status", "started_at", "ended_at", "error",
)  # fmt: skip


def write_span(txn: Any, dbs: dict[str, Any], tips: TokenTips, rollout: bytes, span: Span) -> bytes:
    """Store what the span refers to and return the span's own bytes."""
    record: dict[str, Any] = {name: getattr(span, name) for name in SCALARS}
    record["messages"] = put_list(txn, dbs["blobs"], span.messages)
    if span.tools is not None:
        record["tools"] = put_list(txn, dbs["blobs"], span.tools)
    prompt, prompt_key = b"", ROOT
    if span.prompt_ids is not None:
        prompt = ids_to_bytes(span.prompt_ids)
        prompt_key = record["prompt"] = tips.put(txn, dbs["tokens"], rollout, prompt)
    record["choices"] = [_write_choice(txn, dbs, tips, rollout, prompt_key, prompt, choice) for choice in span.choices]
    return pack(record)


def _write_choice(
    txn: Any,
    dbs: dict[str, Any],
    tips: TokenTips,
    rollout: bytes,
    prompt_key: bytes,
    prompt: bytes,
    choice: Choice,
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "index": choice.index,
        "text": choice.text,
        "tool_calls": choice.tool_calls,
        "finish_reason": choice.finish_reason,
    }
    if choice.completion_ids is not None:
        ids = ids_to_bytes(choice.completion_ids)
        record["completion"] = tips.extend(txn, dbs["tokens"], rollout, prompt_key, prompt, ids)
        record["num_tokens"] = len(ids) // 4
    if choice.completion_logprobs is not None:
        record["logprobs"] = floats_to_bytes(choice.completion_logprobs)
    return record


class SpanReader:
    """Reads the spans of one rollout; remembers shared segments, so that T turns cost O(T) look-ups."""

    def __init__(self, txn: Any, dbs: dict[str, Any]) -> None:
        self._txn = txn
        self._dbs = dbs
        self._tokens: dict[bytes, bytes] = {}
        self._lists: dict[bytes, list[Any]] = {}

    def read(self, rollout_id: str, span_id: str, data: bytes) -> Span:
        """Raises StoreError where a segment or message that the span refers to is missing."""
        record = unpack(data)
        span = Span(span_id=span_id, rollout_id=rollout_id, **{name: record[name] for name in SCALARS})
        span.messages = self._list(record["messages"])
        span.tools = self._list(record["tools"]) if "tools" in record else None
        span.prompt_ids = self._ids(record["prompt"]) if "prompt" in record else None
        span.choices = [self._choice(choice) for choice in record["choices"]]
        return span

    def _choice(self, record: dict[str, Any]) -> Choice:
        choice = Choice(record["index"], record["text"], record["tool_calls"], record["finish_reason"])
        if "completion" in record:
            ids = self._ids(record["completion"])
            choice.completion_ids = ids[len(ids) - record["num_tokens"] :]
        if "logprobs" in record:
            choice.completion_logprobs = floats_from_bytes(record["logprobs"])
        return choice

    def _ids(self, key: bytes) -> Any:
        return ids_from_bytes(read_tokens(self._txn, self._dbs["tokens"], key, self._tokens))

    def _list(self, key: bytes) -> list[Any]:
        return read_list(self._txn, self._dbs["blobs"], key, self._lists)
