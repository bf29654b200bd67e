"""OpenAI chat completions, whole and streamed, with the token ids that vLLM adds on request; pure, no I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from agentlight_instrumentation import payload as shared
from agentlight_store.span import Choice

SPOKEN_BY_VLLM = True
SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "max_tokens", "max_completion_tokens", "seed", "n", "logit_bias",
)  # fmt: skip


class _Logprob(msgspec.Struct, gc=False):
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


def is_call(body: dict[str, Any]) -> bool:
    return isinstance(body.get("messages"), list)


def read_request(body: dict[str, Any], path: str = "") -> dict[str, Any]:
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
    if body.get("top_logprobs") is None:  # which vLLM refuses without `logprobs`, and is to go on refusing
        added["logprobs"] = True
    if body.get("stream"):
        added["stream_options"] = {"include_usage": True}
    return shared.not_set(body, added)


class Reader(shared.Reader):
    def __init__(self, added: frozenset[str] = frozenset(), request: dict[str, Any] | None = None) -> None:
        super().__init__(added, request)
        self._choices: dict[int, _Collected] = {}

    def add(self, payload: bytes) -> bytes | None:
        reply, source = shared.read(_reply, payload)
        self.fail(reply.error)
        if reply.usage is not None:
            self.count(reply.usage.prompt_tokens, reply.usage.completion_tokens)
        cuts = shared.Cuts(source)
        if prompt_ids := bytes(reply.prompt_token_ids):
            if self.prompt_ids is None and prompt_ids != b"null":
                self.prompt_ids = shared.token_ids(prompt_ids)
            if "return_token_ids" in self._added:
                cuts.replace(b'"prompt_token_ids":', prompt_ids)
        only_for_ids = bool(reply.choices)
        for choice in reply.choices or ():
            collected = self._choices.setdefault(choice.index, _Collected())
            only_for_ids = collected.add(choice) and only_for_ids
            if "return_token_ids" in self._added and choice.token_ids:
                cuts.replace(b'"token_ids":', bytes(choice.token_ids))
            if "logprobs" in self._added and choice.logprobs:
                cuts.replace(b'"logprobs":', bytes(choice.logprobs))
        if "stream_options" in self._added and reply.usage is not None and not reply.choices:
            return None  # the chunk that only tells the usage
        return None if only_for_ids and "return_token_ids" in self._added else cuts.apply(payload)

    def choices(self) -> list[Choice]:
        return [self._choices[index].choice(index) for index in sorted(self._choices)]


class _Collected:
    """One choice as it grows."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.tool_calls: list[dict[str, Any]] = []
        self._open_calls: dict[Any, dict[str, Any]] = {}
        self.finish_reason: str | None = None
        self.tokens = shared.Tokens()

    def add(self, choice: _Choice) -> bool:
        """True for a chunk that carries ids and nothing else: without our fields vLLM would not have sent it."""
        self.finish_reason = choice.finish_reason or self.finish_reason
        if (ids := bytes(choice.token_ids)) and ids != b"null":
            self.tokens.add_ids(ids)
        if (raw := bytes(choice.logprobs)) and raw != b"null":
            self.tokens.add_logprobs([entry.logprob for entry in _logprobs.decode(raw).content or ()])
        if choice.message is not None:
            self.text = choice.message.get("content")
            self.tool_calls = shared.list_of_dicts(choice.message.get("tool_calls"))
            return False
        delta = choice.delta or {}
        if isinstance(content := delta.get("content"), str):
            self.text = content if self.text is None else self.text + content
        for fragment in shared.list_of_dicts(delta.get("tool_calls")):
            self._add_tool_call(fragment)
        return choice.delta == {} and choice.finish_reason is None and ids not in (b"", b"null")

    def _add_tool_call(self, fragment: dict[str, Any]) -> None:
        index, call_id = fragment.get("index"), fragment.get("id")
        index, call_id = index if isinstance(index, int) else None, call_id if isinstance(call_id, str) else None
        call = self._open_calls.get(call_id or index) or self._open_calls.get(index)
        # Some servers repeat one index for every call: a new id is a new call whatever its index.
        if call is None or (call_id and call["id"] and call_id != call["id"]):
            call = {"id": call_id, "type": "function", "function": {"name": "", "arguments": ""}}
            self.tool_calls.append(call)
        self._open_calls[index] = call
        if call_id:
            self._open_calls[call_id] = call
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
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
            completion_ids=self.tokens.ids,
            completion_logprobs=self.tokens.logprobs,
        )
