"""What the fake server answers: tokens that are words, replies in the shape of vLLM 0.32; knows nothing of HTTP.

An id is a hash of its word and a log-prob a function of the id: whoever knows the words knows what was sampled.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

WORDS = (
    "alpha", "beta", "gamma", "delta", "épsilon", "zeta", "漢字", "theta", "iota", "kappa", '"quoted"', "mu",
    "back\\slash", "xi", "[DONE]ish", "omega",
)  # fmt: skip
END = "<|end|>"
KNOWN_FIELDS = frozenset((
    "model", "messages", "tools", "tool_choice", "stream", "stream_options", "n", "temperature", "top_p", "max_tokens",
    "max_completion_tokens", "seed", "logprobs", "top_logprobs", "stop", "user", "frequency_penalty",
    "presence_penalty", "response_format", "parallel_tool_calls",
))  # fmt: skip
UNREADABLE = {
    "null_choices": b'{"id":"x","object":"chat.completion","created":1,"model":"smol","choices":null}',
    "empty": b"{}",
    "html": b"<html><body>Bad gateway, but 200</body></html>",
    "broken": b'{"id":"x","choices":[{"index":0,"message":{"role":"assist',
    "list": b"[1, 2, 3]",
    "nothing": b"",
}


@dataclass
class Switches:
    """How the server behaves; the defaults are those of a healthy vLLM."""

    words: int = 8  # sampled a choice, before the end token
    chunk_delay: float = 0.0  # seconds before each event of a stream
    chunk_bytes: int = 0  # cut a stream into pieces of so many bytes; 0: one event a piece
    drop_after: int = -1  # close the connection after so many pieces (of a whole reply: after half of it)
    status: int = 0  # answer with this status always
    strict: bool = False  # 422 for fields that OpenAI does not have
    omit_ids: int = 0  # leave so many ids out of each choice
    omit_logprobs: int = 0
    logprob: str = ""  # "null", "nan" or "-9999": the first log-prob of each choice
    gzip: str = ""  # "accepted": when the client accepts it; "always"
    crlf: bool = False
    no_done: bool = False
    no_charset: bool = False
    raw: str = ""  # a key of UNREADABLE: the reply
    no_logprobs: bool = False  # 400 for a request that includes log-probs
    redirect: bool = False  # 307 to the same path below /moved
    tool_style: str = "plain"  # "interleaved"; "same_index": each call has index 0; "same_index_ids": and interleaved

    def of_model(self, model: str) -> Switches:
        changes: dict[str, Any] = {}
        types = {one.name: type(one.default) for one in fields(self)}
        for part in model.split("+")[1:]:
            name, _, value = part.partition("=")
            changes[name] = True if types[name] is bool else types[name](value)
        return replace(self, **changes)


@dataclass
class Request:
    """One request as it arrived, and what was answered."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    prompt_ids: list[int] = field(default_factory=list)
    choices: list[Sampled] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Sampled:
    """One completion: its tokens as text, and for each the change of a streamed message it leads to, if any."""

    tokens: list[str]
    deltas: list[dict[str, Any] | None]
    finish_reason: str
    message: dict[str, Any]

    @property
    def ids(self) -> list[int]:
        return [token_id(token) for token in self.tokens]

    @property
    def logprobs(self) -> list[float]:
        return [logprob(token) for token in self.tokens]


def token_id(token: str) -> int:
    return zlib.crc32(token.encode()) % 49152


def logprob(token: str) -> float:
    return -(token_id(token) % 512) / 128  # exact in float32


def render(messages: list[Any], tools: list[Any] | None) -> list[str]:
    """The prompt's tokens; a later prompt that holds an earlier reply extends that prompt and reply exactly."""
    tokens = re.findall(r"\s*\S+", json.dumps(tools)) if tools else []
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content or message.get("tool_calls"))
        tokens += [f"<|{message.get('role')}|>", *re.findall(r"\s*\S+", text), END]
    return [*tokens, "<|assistant|>"]


def sample(prompt: list[str], index: int, body: dict[str, Any], switches: Switches) -> Sampled:
    draw = zlib.crc32(" ".join(prompt).encode() + bytes([index]))
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or 10**6
    if body.get("tools") and body.get("tool_choice") != "none":
        return _tool_calls(draw, [tool["function"]["name"] for tool in body["tools"]], switches.tool_style)
    words = [(" " if number else "") + WORDS[(draw + 7 * number) % len(WORDS)] for number in range(switches.words)]
    tokens = [*words, END][:limit]
    deltas: list[dict[str, Any] | None] = [{"content": "" if token == END else token} for token in tokens]
    text = "".join(token for token in tokens if token != END)
    return Sampled(tokens, deltas, "stop" if END in tokens else "length", {"role": "assistant", "content": text})


def _tool_calls(draw: int, names: list[str], style: str) -> Sampled:
    calls, streams = [], []
    for number, name in enumerate(names):
        call_id, pieces = f"call-{draw:08x}-{number}", ['{"city": ', f'"{WORDS[(draw + number) % 5]}', '"}']
        index = 0 if style.startswith("same_index") else number
        calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": "".join(pieces)}})
        first = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        again = {"id": call_id} if style == "same_index_ids" else {}
        rest = [{"index": index, **again, "function": {"arguments": piece}} for piece in pieces]
        tokens = ["<tool_call>", name, *pieces, "</tool_call>"]
        streams.append(list(zip(tokens, [None, first, *rest, None], strict=True)))
    if style in ("interleaved", "same_index_ids"):
        steps = [step for steps in zip(*streams, strict=True) for step in steps]
    else:
        steps = [step for stream in streams for step in stream]
    steps.append((END, None))
    deltas = [None if fragment is None else {"tool_calls": [fragment]} for _, fragment in steps]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return Sampled([token for token, _ in steps], deltas, "tool_calls", message)


class Reply:
    """The JSON of one reply, whole or as events, in the shape of vLLM 0.32."""

    content_type = "text/event-stream"

    @staticmethod
    def asked(body: dict[str, Any], path: str) -> dict[str, Any]:
        """The request in the words of a chat completion: messages, tools, max_tokens, n, stream."""
        return body

    def __init__(self, body: dict[str, Any], request: Request, switches: Switches) -> None:
        self.body, self.request, self.switches = body, request, switches
        self.ids, self.logprobs = bool(body.get("return_token_ids")), bool(body.get("logprobs"))
        self.head = {"id": f"chatcmpl-{zlib.crc32(repr(request.prompt_ids).encode()):016x}", "created": 1796095277}

    def whole(self) -> bytes:
        choices = []
        for index, one in enumerate(self.request.choices):
            message = {"content": None, "refusal": None, "annotations": None, "reasoning": None, **one.message}
            end = {"finish_reason": one.finish_reason, "stop_reason": None}
            choices.append({"index": index, "message": message, **self._tokens(one, 0, len(one.tokens)), **end})
        prompt_ids = self.request.prompt_ids if self.ids else None
        reply = {**self.head, "object": "chat.completion", "model": self.body.get("model"), "choices": choices}
        return to_json({**reply, "usage": self._usage(), "prompt_logprobs": None, "prompt_token_ids": prompt_ids})

    def events(self) -> Iterator[bytes]:
        prompt_ids = self.request.prompt_ids if self.ids else None
        for index in range(len(self.request.choices)):
            delta = {"role": "assistant", "content": ""}
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
            yield self._event([choice], prompt_token_ids=prompt_ids)
        for position in range(max(len(one.tokens) for one in self.request.choices)):
            for index, one in enumerate(self.request.choices):
                if position >= len(one.tokens):
                    continue
                delta, last = one.deltas[position], position == len(one.tokens) - 1
                if delta is None and not last and not self.ids:
                    continue  # vLLM sends a suppressed token only to who asked for its id
                choice = {"index": index, "delta": delta or {}, **self._tokens(one, position, position + 1)}
                choice["finish_reason"] = one.finish_reason if last else None
                yield self._event([choice])
        if (self.body.get("stream_options") or {}).get("include_usage"):
            yield self._event([], usage=self._usage())
        if not self.switches.no_done:
            yield self._framed(b"[DONE]")

    def _tokens(self, one: Sampled, start: int, end: int) -> dict[str, Any]:
        """The ids and log-probs of a choice's tokens from `start` to `end`, damaged as the switches say."""
        content = []
        for position, token in enumerate(one.tokens[start:end], start):
            value: Any = logprob(token)
            if position == 0 and self.switches.logprob:
                value = {"null": None, "nan": float("nan"), "-9999": -9999.0}[self.switches.logprob]
            top = {"token": token, "logprob": value, "bytes": list(token.encode())}
            content.append({**top, "top_logprobs": [top] if self.body.get("top_logprobs") else []})
        ids = one.ids[max(start, self.switches.omit_ids) : end]
        content = content[max(0, self.switches.omit_logprobs - start) :]
        return {"logprobs": {"content": content} if self.logprobs else None, "token_ids": ids if self.ids else None}

    def _usage(self) -> dict[str, Any]:
        prompt, sampled = len(self.request.prompt_ids), sum(len(one.tokens) for one in self.request.choices)
        return {"prompt_tokens": prompt, "total_tokens": prompt + sampled, "completion_tokens": sampled}

    def _event(self, choices: list[Any], **more: Any) -> bytes:
        chunk = {**self.head, "object": "chat.completion.chunk", "model": self.body.get("model"), "choices": choices}
        return self._framed(to_json({**chunk, **more}))

    def _framed(self, data: bytes) -> bytes:
        return b"data: " + data + (b"\r\n\r\n" if self.switches.crlf else b"\n\n")


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
