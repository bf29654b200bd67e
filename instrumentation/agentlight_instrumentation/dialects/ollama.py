"""Ollama's /api/chat and /api/generate, whole and as lines of JSON; pure, no I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from agentlight_instrumentation import payload as shared
from agentlight_store.span import Choice

SPOKEN_BY_VLLM = False
SAMPLING = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "num_predict": "max_tokens",
    "seed": "seed", "repeat_penalty": "repetition_penalty", "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}  # fmt: skip

_payload = msgspec.json.Decoder(dict[str, Any])


def is_call(body: dict[str, Any]) -> bool:
    return isinstance(body.get("model"), str) and (isinstance(body.get("messages"), list) or "prompt" in body)


def read_request(body: dict[str, Any], path: str = "") -> dict[str, Any]:
    """model, messages (of /api/generate: system and prompt), tools, and the sampling settings of `options`."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        messages = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        messages.append({"role": "user", "content": body.get("prompt")})
    tools = body.get("tools")
    return {
        "model": body["model"],
        "messages": messages,
        "tools": tools if isinstance(tools, list) else None,
        "sampling": shared.renamed(body.get("options"), SAMPLING),
    }


def additions(body: dict[str, Any]) -> dict[str, Any]:
    """None: no policy server speaks this dialect."""
    return {}


class Reader(shared.Reader):
    def __init__(self, added: frozenset[str] = frozenset(), request: dict[str, Any] | None = None) -> None:
        super().__init__(added, request)
        self._texts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._finish_reason: str | None = None
        self._started = False

    def add(self, payload: bytes) -> bytes | None:
        reply, _ = shared.read(_payload, payload)
        self.fail(reply.get("error"))
        message = reply.get("message")
        text = message.get("content") if isinstance(message, dict) else reply.get("response")
        self._started = self._started or text is not None or message is not None
        if isinstance(text, str):
            self._texts.append(text)
        for call in shared.list_of_dicts(message.get("tool_calls") if isinstance(message, dict) else None):
            if isinstance(function := call.get("function"), dict):
                self._calls.append(
                    shared.tool_call(call.get("id"), function.get("name"), function.get("arguments", {}))
                )
        if reply.get("done") is True:
            self.done = True
            self._finish_reason = str(reply.get("done_reason") or "stop")
            self.count(reply.get("prompt_eval_count"), reply.get("eval_count"))
        return payload

    def choices(self) -> list[Choice]:
        if not self._started:
            return []
        finish_reason = "tool_calls" if self._calls and self._finish_reason == "stop" else self._finish_reason
        return [Choice(0, shared.text_of(self._texts), self._calls or None, finish_reason)]
