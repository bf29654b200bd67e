"""The OpenAI SDK over its own transport: each request is one record, and the agent sees what it would have seen."""

from __future__ import annotations

import pytest
from conftest import RunAgent
from fake_server import FakeServer

AGENT = """
import asyncio, json, sys
import openai

URL = sys.argv[1]
ASK = [{"role": "user", "content": "what is the weather"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("weather", "time")]
SHAPES = {
    "plain": {},
    "n": {"n": 2},
    "tools": {"tools": TOOLS},
    "usage": {"stream_options": {"include_usage": True}},
    "logprobs": {"logprobs": True, "top_logprobs": 1},
    "no logprobs": {"logprobs": False},
    "ids": {"extra_body": {"return_token_ids": True}},
}
for style in ("interleaved", "same_index", "same_index_ids"):
    SHAPES[style] = {"tools": TOOLS, "n": 2, "model": "smol+tool_style=" + style}
MODELS = {"crlf": "smol+crlf", "cut": "smol+chunk_bytes=7", "open": "smol+no_done", "zip": "smol+gzip=accepted",
          "no charset": "smol+no_charset"}
SHAPES |= {name: {"model": model} for name, model in MODELS.items()}
view = {}

def cases():
    for name, shape in SHAPES.items():
        for stream in (False, True):
            if stream or "stream_options" not in shape:
                yield f"{name} {stream}", {"model": "smol", "messages": ASK, "stream": stream, **shape}

def sync():
    client = openai.OpenAI(base_url=URL, api_key="none")
    for name, case in cases():
        reply = client.chat.completions.create(**case)
        view["sync " + name] = [c.model_dump() for c in reply] if case["stream"] else reply.model_dump()
        view["sync " + name, "type"] = type(reply).__name__
    for stream in (False, True):
        raw = client.chat.completions.with_raw_response.create(model="smol", messages=ASK, stream=stream)
        parsed = raw.parse()
        view["raw", stream] = [c.model_dump() for c in parsed] if stream else parsed.model_dump()
        view["raw head", stream] = raw.status_code, raw.headers["content-type"], raw.headers.get("content-length")
        view["raw request", stream] = raw.http_request.content.decode(), raw.http_request.url.path
        opened = client.chat.completions.with_streaming_response
        with opened.create(model="smol", messages=ASK, stream=stream) as streamed:
            view["streaming", stream] = list(streamed.iter_lines()), streamed.headers["content-type"]
        with opened.create(model="smol", messages=ASK, stream=stream) as streamed:
            view["bytes", stream] = streamed.read().decode()
    with client.chat.completions.stream(model="smol", messages=ASK) as helper:
        view["helper"] = [event.type for event in helper], helper.get_final_completion().model_dump()
    with client.chat.completions.create(model="smol", messages=ASK, stream=True) as stream:
        view["with"] = next(stream).model_dump(), isinstance(stream, openai.Stream), stream.response.status_code

async def asynchronous():
    client = openai.AsyncOpenAI(base_url=URL, api_key="none")
    for name, case in cases():
        reply = await client.chat.completions.create(**case)
        view["async " + name] = [c.model_dump() async for c in reply] if case["stream"] else reply.model_dump()
    for stream in (False, True):
        raw = await client.chat.completions.with_raw_response.create(model="smol", messages=ASK, stream=stream)
        parsed = raw.parse()
        view["araw", stream] = [c.model_dump() async for c in parsed] if stream else parsed.model_dump()
        opened = client.chat.completions.with_streaming_response
        async with opened.create(model="smol", messages=ASK, stream=stream) as streamed:
            view["astreaming", stream] = [line async for line in streamed.iter_lines()]
    await client.close()

sync()
asyncio.run(asynchronous())
print(json.dumps({str(key): value for key, value in view.items()}))
"""


@pytest.mark.parametrize("tokens", [True, False])
def test_the_agent_sees_what_it_would_have_seen_and_each_request_is_one_record(
    tokens: bool, run_agent: RunAgent, server: FakeServer
) -> None:
    """Replies, chunks, headers and raw lines are the same with capture and without; and ids, log-probs, texts,
    tool calls and finish reasons of every choice are the server's own. `tokens`: of a server that we started."""
    server.tokens = tokens
    plain = run_agent(AGENT, server.url, capture=False)
    server.requests.clear()
    captured = run_agent(AGENT, server.url)
    for name, expected in plain.result.items():
        assert captured.result[name] == expected, name
    assert captured.stderr == plain.stderr
    assert captured.events("lost") == []
    spans = captured.spans
    assert len(spans) == len(server.calls) > 60
    for span, call in zip(spans, server.calls, strict=True):
        body = call.json
        assert span.model == body["model"] and span.messages == body["messages"]
        assert span.http_status == 200 and span.dialect == "openai_chat"
        if body.get("logprobs") is False and not tokens:
            assert (span.trainable, span.reason) == (False, "no log-probs in the reply")
            continue
        if span.status == "partial":
            continue  # the stream that the agent left after its first chunk
        assert list(span.prompt_ids or ()) == call.prompt_ids
        assert len(span.choices) == len(call.choices)
        for choice, sampled in zip(span.choices, call.choices, strict=True):
            assert list(choice.completion_ids or ()) == sampled.ids
            assert list(choice.completion_logprobs or ()) == sampled.logprobs
            assert (choice.text or None) == sampled.message["content"]
            assert choice.tool_calls == sampled.message.get("tool_calls")
            assert choice.finish_reason == sampled.finish_reason
        assert span.trainable, span.reason
    assert [span.status for span in spans].count("partial") == 1


def test_fields_are_added_to_the_requests_of_a_vllm_server_only(run_agent: RunAgent, server: FakeServer) -> None:
    """Another server gets the agent's bytes and headers, not one more or less, and its calls are recorded."""
    server.owned_by = "someone"
    run_agent(AGENT, server.url, capture=False)
    plain = [(call.path, call.headers, call.body) for call in server.calls]
    server.requests.clear()
    captured = run_agent(AGENT, server.url)
    assert [(call.path, call.headers, call.body) for call in server.calls] == plain
    spans = captured.spans
    assert len(spans) == len(plain)
    assert [request.method for request in server.requests].count("GET") == 1
    for span, call in zip(spans, server.calls, strict=True):
        if span.status == "ok":
            texts = [(choice.text or None, choice.finish_reason) for choice in span.choices]
            assert texts == [(one.message["content"], one.finish_reason) for one in call.choices]
    own_ids = [span for span in spans if span.completion_ids is not None]
    assert len(own_ids) == 4  # the agent asked for them itself: sync, async, whole, streamed
    assert {span.reason for span in spans if span.completion_ids is None and span.status == "ok"} == {
        f"no token ids: 127.0.0.1:{server.server_port} is no vLLM server"
    }


@pytest.mark.parametrize("setting", [{"logprobs": True, "top_logprobs": 1}, {"logprobs": False}])
def test_the_agents_own_setting_wins(setting: dict[str, object], run_agent: RunAgent, server: FakeServer) -> None:
    """A field that the request has already goes out as the agent set it."""
    agent = """
    import httpx, json, sys
    body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}], **json.loads(sys.argv[2])}
    print(json.dumps(httpx.post(sys.argv[1] + "/chat/completions", json=body).json()))
    """
    import json

    run = run_agent(agent, server.url, json.dumps(setting))
    (call,) = server.calls
    assert {name: call.json[name] for name in setting} == setting
    assert call.json["return_token_ids"] is True
    assert (run.result["choices"][0]["logprobs"] is not None) == setting["logprobs"]
    assert run.result["choices"][0]["token_ids"] is None


@pytest.mark.parametrize("tokens", [True, False])
def test_a_setting_that_is_null_is_not_set(tokens: bool, run_agent: RunAgent, server: FakeServer) -> None:
    """`"logprobs": null` is what SDKs send for a default: the call is as trainable as without, the view the same."""
    server.tokens = tokens
    agent = """
    import httpx, json, sys
    body = b'{"model":"smol","logprobs":null,"seed":12345678901234567890123,"messages":[],"return_token_ids":null}'
    print(json.dumps(httpx.post(sys.argv[1] + "/chat/completions", content=body).text))
    """
    plain = run_agent(agent, server.url, capture=False)
    run = run_agent(agent, server.url)
    assert run.result == plain.result
    assert b'"seed":12345678901234567890123' in server.calls[-1].body
    (span,) = run.spans
    assert span.trainable, span.reason
