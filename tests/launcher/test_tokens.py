"""The middleware of a policy server that we start: what it adds, and what it leaves alone; no vLLM, only its shape."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from agentlight_instrumentation import sampled
from agentlight_instrumentation.servers import NEUTRAL
from agentlight_run.tokens import Generation, Tokens, recorded


class Settings(SimpleNamespace):
    """vLLM's SamplingParams, as far as the middleware looks."""

    def clone(self) -> Settings:
        return Settings(**self.__dict__)


class Engine:
    """Three tokens a prompt, in two outputs; `kind` is how they come."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.model_config = SimpleNamespace(logprobs_mode="processed_logprobs")

    async def generate(self, prompt: Any, sampling_params: Any, request_id: str) -> AsyncIterator[Any]:
        self.seen.append(sampling_params)
        is_delta = sampling_params.output_kind.name == "DELTA"
        for start, end in ((0, 2), (2 if is_delta else 0, 3)):
            logprobs = [{token: SimpleNamespace(logprob=-0.5 * token)} for token in range(start, end)]
            choice = SimpleNamespace(index=0, token_ids=tuple(range(start, end)), logprobs=logprobs)
            yield SimpleNamespace(prompt_token_ids=[7, 8], outputs=[choice], finished=end == 3)


def call(body: bytes, *, stream: bool = False, status: int = 200, method: str = "POST", path: str = "/x") -> Any:
    """The reply to one request of an app that generates and then answers; returns (status, headers, body, engine)."""
    engine, sent = Engine(), []
    pieces = [body[:3], body[3:]] if method == "POST" else [b""]
    settings = Settings(output_kind=SimpleNamespace(name="DELTA" if stream else "FINAL_ONLY"), logprobs=None, **NEUTRAL)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked = b""
        while True:
            message = await receive()
            asked += message.get("body", b"")
            if not message.get("more_body"):
                break
        kind = b"text/event-stream" if stream and status == 200 else b"application/json"
        reply = json.dumps({"asked": asked.decode()}).encode()
        lengths = [] if stream else [(b"content-length", str(len(reply)).encode())]
        if method == "POST":
            outputs = [output async for output in engine.generate("", settings, "id")]
            assert len(outputs) == 2
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *lengths]})
        reply = b"data: [DONE]\n\n" if stream and status == 200 else reply
        await send({"type": "http.response.body", "body": reply, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def receive() -> Any:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    state = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(engine_client=engine)))
    scope = {"type": "http", "method": method, "path": path, "headers": [(b"content-length", b"9")], "app": state.app}
    asyncio.run(Tokens(app)(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(one.get("body", b"") for one in sent[1:]), engine


MARKED = sampled.MARK + b',"model":"smol"}'


def told(generations: list[sampled.Generation]) -> Any:
    (generation,) = generations
    (choice,) = generation.choices
    assert generation.sampling == NEUTRAL | {"logprobs_mode": "processed"}
    return generation.prompt_token_ids, choice.token_ids, choice.logprobs


@pytest.mark.parametrize("stream", [True, False])
def test_who_asks_is_told_what_the_engine_sampled(stream: bool) -> None:
    """As the last member of a whole reply, as one more event of a stream; the app sees the request without the mark."""
    status, headers, body, engine = call(MARKED, stream=stream)
    assert status == 200
    if stream:
        first, rest = body.split(b"\n\n", 1)
        found, plain = sampled.from_event(first.removeprefix(b"data: ")), rest
        assert plain == b"data: [DONE]\n\n"
    else:
        assert headers[b"content-length"] == str(len(body)).encode()
        plain, found = sampled.split(body)
        assert json.loads(plain) == {"asked": '{"model":"smol"}'}
    assert told(found) == ([7, 8], [0, 1, 2], [0.0, -0.5, -1.0])
    assert [one.logprobs for one in engine.seen] == [0]  # log-probs of the sampled tokens, which nobody else asked for


@pytest.mark.parametrize("stream", [True, False])
def test_who_does_not_ask_is_not_told(stream: bool) -> None:
    """Not a byte more, and the engine's settings as they were."""
    asked = b'{"model":"smol"}'
    _, _, body, engine = call(asked, stream=stream)
    assert body == (b"data: [DONE]\n\n" if stream else json.dumps({"asked": asked.decode()}).encode())
    assert [one.logprobs for one in engine.seen] == [None]


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_reply_stays_as_it_is(stream: bool) -> None:
    """Also one that comes after the engine has finished: the endpoint may fail on what was sampled."""
    status, headers, body, _ = call(MARKED, stream=stream, status=400)
    assert (status, json.loads(body)) == (400, {"asked": '{"model":"smol"}'})
    assert stream or headers[b"content-length"] == str(len(body)).encode()


def test_the_list_of_models_says_that_one_may_ask() -> None:
    """So that a client need not try."""
    _, _, body, _ = call(b"", method="GET", path="/v1/models")
    assert json.loads(body)["agentlight_tokens"] is True


def test_who_leaves_early_ends_the_engines_work() -> None:
    """A client that hangs up must not keep the engine busy until the garbage collector comes by."""
    ended = []

    async def outputs() -> AsyncGenerator[Any, None]:
        try:
            for token in range(10):
                choice = SimpleNamespace(index=0, token_ids=(token,), logprobs=None)
                yield SimpleNamespace(prompt_token_ids=[7], outputs=[choice], finished=False)
        finally:
            ended.append(True)

    async def leave() -> None:
        settings = Settings(output_kind=SimpleNamespace(name="DELTA"), **NEUTRAL)
        watched = recorded(Generation(settings, "raw_logprobs"), outputs())
        await watched.__anext__()
        await watched.aclose()
        assert ended == [True]

    asyncio.run(leave())
