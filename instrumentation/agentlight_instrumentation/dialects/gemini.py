"""Google generateContent and streamGenerateContent, as events or as one growing JSON array; pure, no I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from agentlight_instrumentation import payload as shared
from agentlight_store.span import Choice

SPOKEN_BY_VLLM = False
SAMPLING = {
    "temperature": "temperature", "topP": "top_p", "topK": "top_k", "maxOutputTokens": "max_tokens", "seed": "seed",
    "presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty", "candidateCount": "n",
}  # fmt: skip
FINISH = {"STOP": "stop", "MAX_TOKENS": "length"}

_payload = msgspec.json.Decoder(dict[str, Any])


def is_call(body: dict[str, Any]) -> bool:
    return "contents" in body


def read_request(body: dict[str, Any], path: str = "") -> dict[str, Any]:
    """model (it stands in the path), messages (the system instruction first), tools, and the sampling settings."""
    system = body.get("systemInstruction") or body.get("system_instruction")
    contents = body["contents"]
    tools = body.get("tools")
    messages = contents if isinstance(contents, list) else [contents]
    return {
        "model": path.rpartition("/")[2].partition(":")[0],
        "messages": [{"role": "system", "content": system}, *messages] if system else messages,
        "tools": tools if isinstance(tools, list) else None,
        "sampling": shared.renamed(body.get("generationConfig") or body.get("generation_config"), SAMPLING),
    }


def additions(body: dict[str, Any]) -> dict[str, Any]:
    """None: no policy server speaks this dialect."""
    return {}


class Reader(shared.Reader):
    def __init__(self, added: frozenset[str] = frozenset(), request: dict[str, Any] | None = None) -> None:
        super().__init__(added, request)
        self._candidates: dict[int, _Candidate] = {}

    def add(self, payload: bytes) -> bytes | None:
        reply, _ = shared.read(_payload, payload)
        self.fail(reply.get("error"))
        for position, candidate in enumerate(shared.list_of_dicts(reply.get("candidates"))):
            index = candidate.get("index", position)
            self._candidates.setdefault(index if isinstance(index, int) else position, _Candidate()).add(candidate)
        if isinstance(usage := reply.get("usageMetadata"), dict):
            sampled = [usage.get(name) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
            counts = [count for count in sampled if isinstance(count, int)]
            self.count(usage.get("promptTokenCount"), sum(counts) if counts else None)
        if isinstance(feedback := reply.get("promptFeedback"), dict) and feedback.get("blockReason"):
            self.error = f"the prompt was blocked: {feedback['blockReason']}"
        return payload

    def choices(self) -> list[Choice]:
        return [self._candidates[index].choice(index) for index in sorted(self._candidates)]


class _Candidate:
    """One candidate as it grows."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.finish_reason: str | None = None

    def add(self, candidate: dict[str, Any]) -> None:
        if reason := candidate.get("finishReason"):
            self.finish_reason = FINISH.get(str(reason), str(reason))
        content = candidate.get("content")
        for part in shared.list_of_dicts(content.get("parts") if isinstance(content, dict) else None):
            if isinstance(call := part.get("functionCall"), dict):
                self.calls.append(shared.tool_call(call.get("id"), call.get("name"), call.get("args", {})))
            elif isinstance(text := part.get("text"), str) and not part.get("thought"):
                self.texts.append(text)

    def choice(self, index: int) -> Choice:
        finish_reason = "tool_calls" if self.calls and self.finish_reason == "stop" else self.finish_reason
        return Choice(index, shared.text_of(self.texts), self.calls or None, finish_reason)
