"""OpenAI text completions, whole and streamed, with the token ids that vLLM adds on request; pure, no I/O."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from agentlight_instrumentation import payload as shared
from agentlight_store.span import Choice

SPOKEN_BY_VLLM = True
SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "max_tokens", "seed", "n", "logit_bias",
)  # fmt: skip


class _Logprobs(msgspec.Struct):
    token_logprobs: list[float | None] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    text: str | None = None
    logprobs: msgspec.Raw = msgspec.Raw()
    prompt_token_ids: msgspec.Raw = msgspec.Raw()
    token_ids: msgspec.Raw = msgspec.Raw()
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_reply = msgspec.json.Decoder(_Reply, strict=False)
_logprobs = msgspec.json.Decoder(_Logprobs | None)


def is_call(body: dict[str, Any]) -> bool:
    return "prompt" in body and isinstance(body.get("model", ""), str)


def read_request(body: dict[str, Any], path: str = "") -> dict[str, Any]:
    """model, messages (one: the prompt), tools, and the sampling settings that the request names."""
    return {
        "model": str(body.get("model") or ""),
        "messages": [{"role": "user", "content": body["prompt"]}],
        "tools": None,
        "sampling": shared.renamed(body, {name: name for name in SAMPLING}),
    }


def additions(body: dict[str, Any]) -> dict[str, Any]:
    """The fields that make vLLM tell what it sampled; `logprobs` 0 is those of the sampled tokens alone."""
    if body.get("echo"):  # ids and log-probs of the prompt would stand among the completion's
        return {}
    added: dict[str, Any] = {"return_token_ids": True, "logprobs": 0}
    if body.get("stream"):
        added["stream_options"] = {"include_usage": True}
    return shared.not_set(body, added)


class Reader(shared.Reader):
    def __init__(self, added: frozenset[str] = frozenset(), request: dict[str, Any] | None = None) -> None:
        super().__init__(added, request)
        self._choices: dict[int, _Collected] = {}
        self._prompts: dict[bytes, array[int]] = {}

    def add(self, payload: bytes) -> bytes | None:
        reply, source = shared.read(_reply, payload)
        self.fail(reply.error)
        if reply.usage is not None:
            self.count(reply.usage.prompt_tokens, reply.usage.completion_tokens)
        cuts = shared.Cuts(source)
        for choice in reply.choices or ():
            collected = self._choices.setdefault(choice.index, _Collected())
            ids, prompt_ids = bytes(choice.token_ids), bytes(choice.prompt_token_ids)
            collected.add(choice, ids)
            if prompt_ids not in (b"", b"null"):
                self._add_prompt(prompt_ids)
            if "return_token_ids" in self._added:
                cuts.replace(b'"token_ids":', ids)
                cuts.replace(b'"prompt_token_ids":', prompt_ids)
            if "logprobs" in self._added:
                cuts.replace(b'"logprobs":', bytes(choice.logprobs))
        if "stream_options" in self._added and reply.usage is not None and not reply.choices:
            return None  # the chunk that only tells the usage
        return cuts.apply(payload)

    def _add_prompt(self, raw: bytes) -> None:
        """Prompts of one call may be several; then there is no one prompt to record."""
        self._prompts.setdefault(raw, shared.token_ids(raw))
        (first, *others) = self._prompts.values()
        self.prompt_ids = None if others else first
        if others:
            self.why_no_ids = f"{len(self._prompts)} prompts in one call"

    def choices(self) -> list[Choice]:
        return [self._choices[index].choice(index) for index in sorted(self._choices)]


class _Collected:
    """One choice as it grows."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.finish_reason: str | None = None
        self.tokens = shared.Tokens()

    def add(self, choice: _Choice, ids: bytes) -> None:
        self.finish_reason = choice.finish_reason or self.finish_reason
        if choice.text is not None:
            self.text.append(choice.text)
        if ids not in (b"", b"null"):
            self.tokens.add_ids(ids)
        if choice.logprobs and (logprobs := _logprobs.decode(choice.logprobs)) is not None:
            self.tokens.add_logprobs(logprobs.token_logprobs or ())

    def choice(self, index: int) -> Choice:
        return Choice(
            index=index,
            text=shared.text_of(self.text),
            finish_reason=self.finish_reason,
            completion_ids=self.tokens.ids,
            completion_logprobs=self.tokens.logprobs,
        )
