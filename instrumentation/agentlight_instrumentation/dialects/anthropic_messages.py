"""Anthropic Messages, whole and streamed: text, tool use and thinking; pure, no I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from agentlight_instrumentation import payload as shared
from agentlight_store.span import Choice

SPOKEN_BY_VLLM = True
SAMPLING = {name: name for name in ("temperature", "top_p", "top_k", "max_tokens")}
FINISH = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls",
}  # fmt: skip

_payload = msgspec.json.Decoder(dict[str, Any])


def is_call(body: dict[str, Any]) -> bool:
    return isinstance(body.get("messages"), list) and isinstance(body.get("model"), str) and "max_tokens" in body


def read_request(body: dict[str, Any], path: str = "") -> dict[str, Any]:
    """model, messages (the system prompt first), tools, and the sampling settings that the request names."""
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    tools = body.get("tools")
    return {
        "model": body["model"],
        "messages": [*system, *body["messages"]],
        "tools": tools if isinstance(tools, list) else None,
        "sampling": shared.renamed(body, SAMPLING),
    }


def additions(body: dict[str, Any]) -> dict[str, Any]:
    """None: vLLM 0.32 has no field that makes its /v1/messages tell token ids."""
    return {}


class Reader(shared.Reader):
    why_no_ids = "vLLM's /messages tells no token ids, unless it runs the middleware agentlight_run.tokens.Tokens"

    def __init__(self, added: frozenset[str] = frozenset(), request: dict[str, Any] | None = None) -> None:
        super().__init__(added, request)
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._started = False
        self._stop_reason: Any = None

    def add(self, payload: bytes) -> bytes | None:
        event, _ = shared.read(_payload, payload)
        match event.get("type"):
            case "message":
                self._add_message(event)
                self.done = True
            case "message_start":
                self._add_message(event.get("message"))
            case "content_block_start" if isinstance(block := event.get("content_block"), dict):
                self._blocks[_key(event)] = dict(block)
            case "content_block_delta":
                self._add_delta(_key(event), event.get("delta"))
            case "message_delta":
                delta = event.get("delta")
                self._stop_reason = (delta.get("stop_reason") if isinstance(delta, dict) else None) or self._stop_reason
                self._add_usage(event.get("usage"))
            case "message_stop":
                self.done = True
            case "error":
                self.fail(event.get("error"))
            case _ if "error" in event:
                self.fail(event["error"])
        return payload

    def _add_message(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        self._started = True
        for index, block in enumerate(shared.list_of_dicts(message.get("content"))):
            self._blocks[index] = block
        self._stop_reason = message.get("stop_reason")
        self._add_usage(message.get("usage"))

    def _add_usage(self, usage: Any) -> None:
        """The prompt is what was read from a cache, written to one, and the rest."""
        if isinstance(usage, dict):
            parts = [usage.get(name) for name in ("cache_read_input_tokens", "cache_creation_input_tokens")]
            count = usage.get("input_tokens")
            if isinstance(count, int):
                count += sum(part for part in parts if isinstance(part, int))
            self.count(count, usage.get("output_tokens"))

    def _add_delta(self, index: Any, delta: Any) -> None:
        if not isinstance(delta, dict):
            return
        block = self._blocks.setdefault(index, {})
        for name in ("text", "thinking", "partial_json"):
            if isinstance(piece := delta.get(name), str):
                block.setdefault("type", name if name != "partial_json" else "tool_use")
                block.setdefault(f"streamed {name}", []).append(piece)

    def choices(self) -> list[Choice]:
        if not self._started and not self._blocks:
            return []
        texts, calls = [], []
        for block in self._blocks.values():
            if block.get("type") == "text":
                texts += [str(block.get("text") or ""), *block.get("streamed text", ())]
            elif block.get("type") == "tool_use":
                arguments = "".join(block.get("streamed partial_json", ())) or block.get("input", {})
                calls.append(shared.tool_call(block.get("id"), block.get("name"), arguments))
        reason = self._stop_reason
        finish_reason = None if reason is None else FINISH.get(str(reason), str(reason))
        return [Choice(0, shared.text_of(texts), calls or None, finish_reason)]


def _key(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
