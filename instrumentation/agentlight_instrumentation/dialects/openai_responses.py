"""OpenAI Responses, whole and streamed, with the token ids that vLLM adds on request; no I/O.

A request that continues an earlier response names it instead of repeating it: what was said in this process is
remembered by response id, so that the record holds the whole conversation.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from agentlight_instrumentation import payload as shared
from agentlight_store.span import Choice

SPOKEN_BY_VLLM = True
SAMPLING = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "seed": "seed",
    "max_output_tokens": "max_tokens", "repetition_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
}  # fmt: skip
FINISH = {"max_output_tokens": "length"}
INCLUDE = "message.output_text.logprobs"
REMEMBERED = 16 << 20  # bytes of JSON, of the responses that came last
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")

# response id -> the conversation up to its end, and how many bytes of JSON its last turn is
_said: OrderedDict[str, tuple[list[Any], int]] = OrderedDict()


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    logprobs: msgspec.Raw = msgspec.Raw()


class _Item(msgspec.Struct):
    type: str | None = None
    content: list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None  # of a custom tool's call


class _Raw(msgspec.Struct):
    tokens: msgspec.Raw = msgspec.Raw(b"[]")


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Why(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    status: str | None = None
    output: msgspec.Raw = msgspec.Raw()
    incomplete_details: _Why | None = None
    usage: _Usage | None = None
    error: Any = None
    input_messages: msgspec.Raw = msgspec.Raw()
    output_messages: msgspec.Raw = msgspec.Raw()
    top_logprobs: msgspec.Raw = msgspec.Raw()


class _Event(msgspec.Struct):
    """An event of a stream; a whole reply has no `type`."""

    type: str | None = None
    response: _Response | None = None
    item: msgspec.Raw = msgspec.Raw()
    part: _Part | None = None
    output_index: int = 0
    delta: Any = None
    logprobs: msgspec.Raw = msgspec.Raw()
    message: Any = None
    error: Any = None


class _Logprob(msgspec.Struct):
    logprob: float | None = None


_event = msgspec.json.Decoder(_Event, strict=False)
_response = msgspec.json.Decoder(_Response, strict=False)
_item = msgspec.json.Decoder(_Item, strict=False)
_items = msgspec.json.Decoder(list[_Item], strict=False)
_raws = msgspec.json.Decoder(list[_Raw])
_logprobs = msgspec.json.Decoder(list[_Logprob])


def is_call(body: dict[str, Any]) -> bool:
    return isinstance(body.get("model"), str) and any(name in body for name in ("input", "previous_response_id"))


def read_request(body: dict[str, Any], path: str = "") -> dict[str, Any]:
    """model, messages (instructions, what was said before, input), tools, and the sampling settings."""
    instructions = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    tools = body.get("tools")
    return {
        "model": body["model"],
        "messages": [*instructions, *_conversation(body)],
        "tools": tools if isinstance(tools, list) else None,
        "sampling": shared.renamed(body, SAMPLING),
    }


def _conversation(body: dict[str, Any]) -> list[Any]:
    previous = body.get("previous_response_id")
    if previous is None:
        return _new(body)
    known = _said.get(previous) if isinstance(previous, str) else None
    return [*(known[0] if known else [{"type": "previous_response", "id": previous}]), *_new(body)]


def _new(body: dict[str, Any]) -> list[Any]:
    said = body.get("input")
    return said if isinstance(said, list) else [] if said is None else [{"role": "user", "content": said}]


def _remember(response_id: str, body: dict[str, Any], output: bytes) -> None:
    items = msgspec.json.decode(output) if output else []
    size = len(msgspec.json.encode(_new(body))) + len(output)
    _said[response_id] = [*_conversation(body), *(items if isinstance(items, list) else [])], size
    while sum(size for _, size in _said.values()) > REMEMBERED or len(_said) > 200:
        _said.popitem(last=False)


def additions(body: dict[str, Any]) -> dict[str, Any]:
    """The fields that make vLLM tell the ids of prompt and output, and log-probs of what it puts out as text."""
    return shared.not_set(body, {"enable_response_messages": True, "include": [INCLUDE]})


class Reader(shared.Reader):
    def __init__(self, added: frozenset[str] = frozenset(), request: dict[str, Any] | None = None) -> None:
        super().__init__(added, request)
        self._deltas: list[str] = []
        self._items: dict[int, _Item] = {}
        self._tokens = shared.Tokens()
        self._finish_reason: str | None = None
        self._started = False

    def add(self, payload: bytes) -> bytes | None:
        event, source = shared.read(_event, payload)
        cuts = shared.Cuts(source)
        if event.type is None:
            self._add_response(_response.decode(source), cuts, final=True)
            return cuts.apply(payload)
        if event.response is not None:
            self._add_response(event.response, cuts, final=event.type in TERMINAL)
        if event.type == "response.output_text.delta" and isinstance(event.delta, str):
            self._deltas.append(event.delta)
        elif event.type == "response.output_item.done" and event.item:
            self._items[event.output_index] = _item.decode(event.item)
        elif event.type == "error":
            self.fail(event.message or event.error)
        self._hide_logprobs(event, cuts)
        return cuts.apply(payload)

    def _hide_logprobs(self, event: _Event, cuts: shared.Cuts) -> None:
        if "include" not in self._added:
            return
        cuts.replace(b'"logprobs":', bytes(event.logprobs), b"[]")
        if event.item:
            self._hide_parts(_item.decode(event.item).content, cuts)
        self._hide_parts([event.part] if event.part else None, cuts)

    def _hide_parts(self, parts: list[_Part] | None, cuts: shared.Cuts) -> None:
        for part in parts or ():
            if "include" in self._added and bytes(part.logprobs) != b"[]":
                cuts.replace(b'"logprobs":', bytes(part.logprobs))

    def _add_response(self, response: _Response, cuts: shared.Cuts, *, final: bool) -> None:
        self._started = self._started or response.status is not None
        if "include" in self._added:
            cuts.replace(b'"top_logprobs":', bytes(response.top_logprobs))
        items = _items.decode(response.output) if response.output and response.output != b"null" else []
        for item in items:
            self._hide_parts(item.content, cuts)
        prompt, output = bytes(response.input_messages), bytes(response.output_messages)
        if "enable_response_messages" in self._added:
            cuts.replace(b'"input_messages":', prompt)
            cuts.replace(b'"output_messages":', output)
        self.fail(response.error)
        if response.usage is not None:
            self.count(response.usage.input_tokens, response.usage.output_tokens)
        if not final:
            return
        self.done = True
        self._items = dict(enumerate(items)) or self._items
        why = response.incomplete_details
        self._finish_reason = self._finish(response.status, why.reason if why else None)
        self._add_tokens(prompt, output)
        if response.id:
            _remember(response.id, self._request, bytes(response.output))

    def _finish(self, status: str | None, why: str | None) -> str | None:
        if status == "incomplete":
            return FINISH.get(why or "", why or "incomplete")
        if status == "completed":
            return "tool_calls" if any(_is_call(item) for item in self._items.values()) else "stop"
        return status

    def _add_tokens(self, prompt: bytes, output: bytes) -> None:
        if prompt in (b"", b"null") or output in (b"", b"null"):
            return
        prompts, outputs = _raws.decode(prompt), _raws.decode(output)
        if len(prompts) != 1 or len(outputs) > 1:
            self.why_no_ids = f"the server made {len(outputs)} generations of {len(prompts)} prompts"
            return
        self.prompt_ids = shared.token_ids(bytes(prompts[0].tokens))
        self._tokens.add_ids(bytes(outputs[0].tokens) if outputs else b"[]")
        parts = [part for item in self._items.values() for part in item.content or () if part.logprobs]
        for part in parts:
            if bytes(part.logprobs) != b"null":
                self._tokens.add_logprobs([entry.logprob for entry in _logprobs.decode(part.logprobs)])

    def choices(self) -> list[Choice]:
        if not self._started and not self._items and not self._deltas:
            return []
        items = self._items.values()
        parts = [part for item in items if item.type == "message" for part in item.content or ()]
        texts = [part.text or part.refusal or "" for part in parts]
        called = [item for item in items if _is_call(item)]
        calls = [shared.tool_call(one.call_id, one.name, one.arguments or one.input or "") for one in called]
        text = shared.text_of(texts or ([] if self._items else self._deltas))
        choice = Choice(0, text, calls or None, self._finish_reason)
        choice.completion_ids, choice.completion_logprobs = self._tokens.ids, self._tokens.logprobs
        return [choice]


def _is_call(item: _Item) -> bool:
    return item.type in ("function_call", "custom_tool_call")
