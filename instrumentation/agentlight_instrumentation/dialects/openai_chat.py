"""OpenAI chat completions, whole and streamed, with the token ids that vLLM adds on request; pure, no I/O."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from agentlight_store.span import Choice

SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "max_tokens", "max_completion_tokens", "seed", "n", "logit_bias",
)  # fmt: skip


class _Logprob(msgspec.Struct):
    logprob: float | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Logprob] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    message: dict[str, Any] | None = None  # a whole reply's
    delta: dict[str, Any] | None = None  # a streamed reply's
    logprobs: msgspec.Raw = msgspec.Raw()
    token_ids: msgspec.Raw = msgspec.Raw()
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] | None = None
    prompt_token_ids: msgspec.Raw = msgspec.Raw()
    usage: _Usage | None = None
    error: Any = None


_reply = msgspec.json.Decoder(_Reply, strict=False)
_logprobs = msgspec.json.Decoder(_Logprobs)
_ids = msgspec.json.Decoder(list[int])


def is_call(body: dict[str, Any]) -> bool:
    return isinstance(body.get("messages"), list)


def read_request(body: dict[str, Any]) -> dict[str, Any]:
    """model, messages, tools, and the sampling settings that the request names."""
    sampling = {name: body[name] for name in SAMPLING if body.get(name) is not None}
    if "max_completion_tokens" in sampling:
        sampling.setdefault("max_tokens", sampling.pop("max_completion_tokens"))
    tools = body.get("tools")
    return {
        "model": str(body.get("model") or ""),
        "messages": body["messages"],
        "tools": tools if isinstance(tools, list) else None,
        "sampling": sampling,
    }


def additions(body: dict[str, Any]) -> dict[str, Any]:
    """The fields to add so that a vLLM server tells what it sampled; what the agent set itself is not touched."""
    added: dict[str, Any] = {"return_token_ids": True}
    if "top_logprobs" not in body:  # which vLLM refuses without `logprobs`, and is to go on refusing
        added["logprobs"] = True
    if body.get("stream"):
        added["stream_options"] = {"include_usage": True}
    return {name: value for name, value in added.items() if name not in body}


class Reader:
    """Collects one reply from its JSON payloads (one when whole, one an event when streamed).

    `added` names the request fields that were added for capture; what they put into the reply is taken out of
    the payload that the agent gets to see.
    """

    def __init__(self, added: frozenset[str] = frozenset()) -> None:
        self._added = added
        self._choices: dict[int, _Collected] = {}
        self.prompt_ids: array[int] | None = None
        self.usage: dict[str, int] = {}
        self.error: str | None = None

    def add(self, payload: bytes) -> bytes | None:
        """Read one payload; returns it as the agent would have got it, None for one that it would not have got.

        Raises msgspec.DecodeError or ValueError for a payload that is not of this dialect.
        """
        reply = _reply.decode(payload)
        if reply.error is not None:
            message = reply.error.get("message") if isinstance(reply.error, dict) else None
            self.error = str(message or reply.error)[:500]
        if reply.usage is not None:
            counts = {
                "input_tokens": reply.usage.prompt_tokens,
                "output_tokens": reply.usage.completion_tokens,
            }
            self.usage = {name: count for name, count in counts.items() if count is not None}
        if prompt_ids := bytes(reply.prompt_token_ids):
            if self.prompt_ids is None and prompt_ids != b"null":
                self.prompt_ids = _token_ids(prompt_ids)
            if "return_token_ids" in self._added:
                payload = _blank(payload, b'"prompt_token_ids"', prompt_ids)
        only_for_ids = bool(reply.choices)
        for choice in reply.choices or ():
            collected = self._choices.setdefault(choice.index, _Collected())
            only_for_ids = collected.add(choice) and only_for_ids
            if "return_token_ids" in self._added and choice.token_ids:
                payload = _blank(payload, b'"token_ids"', bytes(choice.token_ids))
            if "logprobs" in self._added and choice.logprobs:
                payload = _blank(payload, b'"logprobs"', bytes(choice.logprobs))
        if "stream_options" in self._added and reply.usage is not None and not reply.choices:
            return None  # the chunk that only tells the usage
        return None if only_for_ids and "return_token_ids" in self._added else payload

    def choices(self) -> list[Choice]:
        return [self._choices[index].choice(index) for index in sorted(self._choices)]


class _Collected:
    """One choice as it grows."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.tool_calls: list[dict[str, Any]] = []
        self._open_calls: dict[Any, dict[str, Any]] = {}
        self.finish_reason: str | None = None
        self.ids: array[int] | None = None
        self.logprobs: array[float] | None = None

    def add(self, choice: _Choice) -> bool:
        """True for a chunk that carries ids and nothing else: without our fields vLLM would not have sent it."""
        self.finish_reason = choice.finish_reason or self.finish_reason
        if (ids := bytes(choice.token_ids)) and ids != b"null":
            self.ids = self.ids if self.ids is not None else array("I")
            self.ids.extend(_token_ids(ids))
        if (raw := bytes(choice.logprobs)) and raw != b"null":
            self.logprobs = self.logprobs if self.logprobs is not None else array("f")
            nan = float("nan")
            entries = _logprobs.decode(raw).content or ()
            self.logprobs.extend([nan if entry.logprob is None else entry.logprob for entry in entries])
        if choice.message is not None:
            self.text = choice.message.get("content")
            self.tool_calls = choice.message.get("tool_calls") or []
            return False
        delta = choice.delta or {}
        if isinstance(content := delta.get("content"), str):
            self.text = content if self.text is None else self.text + content
        for fragment in delta.get("tool_calls") or ():
            if isinstance(fragment, dict):
                self._add_tool_call(fragment)
        return choice.delta == {} and choice.finish_reason is None and ids not in (b"", b"null")

    def _add_tool_call(self, fragment: dict[str, Any]) -> None:
        index, call_id = fragment.get("index"), fragment.get("id")
        call = self._open_calls.get(call_id or index) or self._open_calls.get(index)
        # Some servers repeat one index for every call: a new id is a new call whatever its index.
        if call is None or (call_id and call["id"] and call_id != call["id"]):
            call = {"id": call_id, "type": "function", "function": {"name": "", "arguments": ""}}
            self.tool_calls.append(call)
        self._open_calls[index] = call
        if call_id:
            self._open_calls[call_id] = call
        function = fragment.get("function") or {}
        call["id"] = call["id"] or call_id
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        arguments = function.get("arguments") or ""
        # Some servers send an object in place of its JSON.
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        call["function"]["arguments"] += text

    def choice(self, index: int) -> Choice:
        return Choice(
            index=index,
            text=self.text if isinstance(self.text, str) else None,
            tool_calls=self.tool_calls or None,
            finish_reason=self.finish_reason,
            completion_ids=self.ids,
            completion_logprobs=self.logprobs,
        )


def _token_ids(raw: bytes) -> array[int]:
    try:
        return array("I", _ids.decode(raw))
    except OverflowError as error:
        raise ValueError(f"a token id is no uint32: {error}") from error


def _blank(payload: bytes, key: bytes, value: bytes) -> bytes:
    """`"key":value` becomes `"key":null`, as the server writes it for who did not ask; all else byte for byte.

    Inside a JSON string a quote is escaped, so `"key":` with bare quotes is never text of the model.
    """
    if value == b"null":
        return payload
    # From the end, where vLLM writes ids; a search for the key alone, not for kilobytes of value.
    found = payload.rfind(key)
    while found >= 0:
        start = found + len(key)
        for colon in (b":", b": "):
            if payload.startswith(colon + value, start):
                start += len(colon)
                return payload[:start] + b"null" + payload[start + len(value) :]
        found = payload.rfind(key, 0, found)
    raise ValueError(f"cannot take {key.decode()} out of the reply")
