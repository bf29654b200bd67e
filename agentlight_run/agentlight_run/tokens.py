"""Inside vLLM's process: ASGI middleware that adds what was really sampled to the reply of any endpoint, on request.

`vllm ... --middleware agentlight_run.tokens.Tokens`. A request whose JSON object begins with `FIELD` gets one more
member at the end of a whole reply, or one more event before the last events of a stream. It is taken where the engine
hands its output to the HTTP layer, so no parser, template or wire format of an endpoint can lose any of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

from agentlight_instrumentation.sampled import MARK
from agentlight_instrumentation.servers import FIELD, NEUTRAL

_recorder: ContextVar[Recorder | None] = ContextVar("agentlight_recorder", default=None)


class Recorder:
    """What the engine generated for one request: usually one generation, one more for each further prompt."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self.told = False

    @property
    def is_due(self) -> bool:
        return not self.told and bool(self.generations) and all(one.finished for one in self.generations)

    def tell(self) -> bytes:
        self.told = True
        return json.dumps([one.as_json() for one in self.generations], separators=(",", ":")).encode()


class Generation:
    """One prompt and its sampled choices, from the engine's outputs as they come."""

    def __init__(self, settings: Any, logprobs_mode: str) -> None:
        self.sampling = {name: getattr(settings, name) for name in NEUTRAL}
        self.sampling["logprobs_mode"] = logprobs_mode.removesuffix("_logprobs")
        self.is_delta = getattr(settings.output_kind, "name", "") == "DELTA"
        self.prompt_ids: list[int] = []
        self.ids: dict[int, list[int]] = {}
        self.logprobs: dict[int, list[float]] = {}
        self.finished = False

    def add(self, output: Any) -> None:
        self.prompt_ids = list(output.prompt_token_ids or self.prompt_ids)
        for choice in output.outputs:
            ids = list(choice.token_ids)
            chosen = zip(ids, choice.logprobs or (), strict=False)
            logprobs = [max(entry[token_id].logprob, -9999.0) for token_id, entry in chosen]
            if self.is_delta:
                ids = [*self.ids.get(choice.index, ()), *ids]
                logprobs = [*self.logprobs.get(choice.index, ()), *logprobs]
            self.ids[choice.index], self.logprobs[choice.index] = ids, logprobs
        self.finished = bool(output.finished)

    def as_json(self) -> dict[str, Any]:
        choices = [
            {"index": index, "token_ids": self.ids[index], "logprobs": self.logprobs[index]}
            for index in sorted(self.ids)
        ]
        return {"prompt_token_ids": self.prompt_ids, "choices": choices, "sampling": self.sampling}


class Tokens:
    """The middleware. Requests that do not ask pass through untouched."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._engine: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if scope["method"] == "GET" and scope["path"].endswith("/models"):
            return await self._app(scope, receive, Adding(send, lambda: b"true"))
        if scope["method"] != "POST":
            return await self._app(scope, receive, send)
        first = await _beginning(receive)
        if not first.get("body", b"").startswith(MARK):
            return await self._app(scope, _again(first, receive), send)
        self._watch(scope["app"].state.engine_client)
        first |= {"body": b"{" + first["body"][len(MARK) :].removeprefix(b",")}
        recorder = Recorder()
        _recorder.set(recorder)
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        await self._app(scope | {"headers": headers}, _again(first, receive), Adding(send, recorder.tell, recorder))

    def _watch(self, engine: Any) -> None:
        if engine is self._engine:
            return
        self._engine, generate = engine, engine.generate

        def watched(prompt: Any, sampling_params: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            recorder = _recorder.get()
            if recorder is None:
                return generate(prompt, sampling_params, *args, **kwargs)
            if sampling_params.logprobs is None:
                sampling_params = sampling_params.clone()  # the endpoint goes on reading its own
                sampling_params.logprobs = 0  # of the sampled token alone
            generation = Generation(sampling_params, str(engine.model_config.logprobs_mode))
            recorder.generations.append(generation)
            return recorded(generation, generate(prompt, sampling_params, *args, **kwargs))

        engine.generate = watched


async def recorded(generation: Generation, outputs: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    async with aclosing(outputs):  # who leaves early ends the engine's work at once
        async for output in outputs:
            generation.add(output)
            yield output


async def _beginning(receive: Any) -> dict[str, Any]:
    """As much of the request's body as tells whether it begins with the mark."""
    message = dict(await receive())
    while message.get("more_body") and len(message.get("body", b"")) < len(MARK):
        more = await receive()
        message |= more | {"body": message.get("body", b"") + more.get("body", b"")}
    return message


def _again(first: Any, receive: Any) -> Any:
    messages = [first]

    async def receive_again() -> Any:
        return messages.pop() if messages else await receive()

    return receive_again


class Adding:
    """An ASGI `send` that puts `value()` into a JSON reply as its last member, or into a stream as one event."""

    def __init__(self, send: Any, value: Any, recorder: Recorder | None = None) -> None:
        self._send, self._value, self._recorder = send, value, recorder
        self._start: Any = None
        self._whole: list[bytes] | None = None
        self._streams = False

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            kind = dict(message["headers"]).get(b"content-type", b"") if message["status"] == 200 else b""
            self._streams = kind.startswith(b"text/event-stream")
            if kind.startswith(b"application/json"):
                self._start, self._whole = message, []
                return
        elif message["type"] == "http.response.body":
            if self._whole is not None:
                return await self._pass_whole(message)
            if self._streams and self._recorder is not None and self._recorder.is_due:
                event = b'data: {"' + FIELD.encode() + b'":' + self._value() + b"}\n\n"
                message = message | {"body": event + message.get("body", b"")}
        await self._send(message)

    async def _pass_whole(self, message: Any) -> None:
        assert self._whole is not None
        self._whole.append(message.get("body", b""))
        if message.get("more_body"):
            return
        body = b"".join(self._whole)
        if body.endswith(b"}"):
            body = body[:-1] + b',"' + FIELD.encode() + b'":' + self._value() + b"}"
        headers = [(name, value) for name, value in self._start["headers"] if name != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        await self._send(self._start | {"headers": headers})
        await self._send(message | {"body": body})
