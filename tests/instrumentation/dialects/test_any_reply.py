"""Every dialect against bytes that nobody foresaw: no exception, no changed byte, and what was added is gone again."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from fake_dialects import REPLIES
from fake_model import Request, Switches, render, sample, to_json, token_id
from fake_server import _telling, told_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlight_instrumentation import dialects, servers, sink
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.recognise import recognise
from agentlight_instrumentation.servers import FIELD

ANY = settings(
    derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BASE = "http://127.0.0.1:9/v1"
ASK = [{"role": "user", "content": "once upon a time"}]
BODIES: dict[str, dict[str, Any]] = {
    "/chat/completions": {"model": "smol", "messages": ASK},
    "/completions": {"model": "smol", "prompt": "once upon"},
    "/responses": {"model": "smol", "input": ASK},
    "/messages": {"model": "smol", "max_tokens": 20, "messages": ASK},
    ":generateContent": {"contents": [{"role": "user", "parts": [{"text": "once upon"}]}]},
    ":streamGenerateContent": {"contents": [{"role": "user", "parts": [{"text": "once upon"}]}]},
    "/api/chat": {"model": "smol", "messages": ASK},
    "/api/generate": {"model": "smol", "prompt": "once upon"},
}
TOOLS: dict[str, Any] = {
    "/chat/completions": [{"type": "function", "function": {"name": "weather"}}],
    "/responses": [{"type": "function", "name": "weather"}],
    "/messages": [{"name": "weather"}],
    ":generateContent": [{"functionDeclarations": [{"name": "weather"}]}],
}
TYPES = ["application/json", "text/event-stream; charset=utf-8", "application/x-ndjson", "text/html", ""]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
# The names that readers look for, so that any JSON is often nearly a reply.
NAMES = """
    choices index message delta content tool_calls function name arguments logprobs token_ids prompt_token_ids usage
    prompt_tokens completion_tokens finish_reason error text token_logprobs type response item part output id status
    output_index input_messages output_messages tokens top_logprobs candidates parts functionCall args finishReason
    usageMetadata role content_block input partial_json stop_reason input_tokens done done_reason eval_count prompt
    response.completed response.output_item.done message_start content_block_delta message_delta agentlight_tokens
""".split()  # noqa: SIM905
values = st.recursive(
    scalars | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)
ODD = [
    b"[" * 5000, b'{"choices":' * 2000, b'{"error":NaN,"choices":[{"index":-Infinity}]}', b'{"id":1e999,"choices":[]}',
    b'{"choices":[{"index":0,"text":"\xff\xfe"}]}', b'{"choices":[{"index":18446744073709551616}]}', b"[DONE]",
    b'{"error":{"message":"\\ud800"}}', b'{"type":"error","error":[]}', b'{"agentlight_tokens":[]}', b"null", b"0",
    b'{"agentlight_tokens":[{"prompt_token_ids":[-1],"choices":[],"sampling":{}}]}', b'[{"candidates":[{"index":"',
]  # fmt: skip
payloads = st.binary(max_size=60) | st.sampled_from(ODD) | values.map(lambda value: json.dumps(value).encode())
bodies = payloads | st.lists(payloads, max_size=4).map(lambda parts: b"\n\n".join(b"data: " + one for one in parts))


class Kept:
    """Stands for the store: what would have been recorded."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def append(self, rollout_id: str, span: Any) -> None:
        from agentlight_store.packing import pack, unpack

        unpack(pack([span.messages, span.tools, span.sampling, span.usage, span.reason, span.raw]))
        assert span.trainable is (span.reason is None)
        self.spans.append(span)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """An error of ours surfaces; nothing is asked over the network, and nothing is written."""
    kept = Kept()
    monkeypatch.setenv("AGENTLIGHT_RAISE", "1")
    monkeypatch.setattr(sink, "_store", kept)
    return kept


def exchange_for(suffix: str, body: dict[str, Any], *, tokens: bool | None) -> Exchange:
    """`tokens`: None is a server that is no vLLM."""
    servers.remember(
        BASE, {"vllm": tokens is not None, "tokens": tokens, "logprobs_mode": None, "models": {"smol": {}}}
    )
    found = recognise("POST", url_of(suffix), json.dumps(body).encode())
    assert found is not None
    found.plan()
    return found


def url_of(suffix: str) -> str:
    return BASE + ("/models/smol" + suffix if suffix.startswith(":") else suffix)


def passed(exchange: Exchange, chunks: list[bytes], content_type: str, encoding: str = "") -> bytes:
    """What the agent gets to see."""
    exchange.begin(200, content_type, encoding)
    if exchange.rewrites_whole:
        return exchange.whole(b"".join(chunks))
    shown = b"".join([exchange.feed(chunk) for chunk in chunks]) + exchange.held_back()
    exchange.finish()
    return shown


def cut(data: bytes, points: list[int]) -> list[bytes]:
    places = sorted({point % (len(data) + 1) for point in points})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("suffix", dialects.DIALECTS)
@ANY
@given(body=bodies, points=st.lists(st.integers(0, 400), max_size=8), content_type=st.sampled_from(TYPES))
def test_any_bytes_pass_unchanged_and_raise_nothing(
    suffix: str, kept: Kept, body: bytes, points: list[int], content_type: str
) -> None:
    """From a server to which nothing was added, in any cut, of any content type: one record."""
    kept.spans.clear()
    exchange = exchange_for(suffix, BODIES[suffix], tokens=None)
    assert passed(exchange, cut(body, points), content_type) == body
    assert len(kept.spans) == 1


@pytest.mark.parametrize("suffix", ["/chat/completions", "/completions", "/responses", "/messages"])
@ANY
@given(
    body=bodies,
    points=st.lists(st.integers(0, 400), max_size=8),
    content_type=st.sampled_from(TYPES),
    encoding=st.sampled_from(["", "", "gzip", "deflate", "br"]),
    tokens=st.booleans(),
    zipped=st.booleans(),
)
def test_any_bytes_raise_nothing_where_fields_were_added(
    suffix: str,
    tokens: bool,
    kept: Kept,
    body: bytes,
    points: list[int],
    content_type: str,
    encoding: str,
    zipped: bool,
) -> None:
    """A server that should tell ids and answers with anything, compressed or only said to be: one record."""
    kept.spans.clear()
    exchange = exchange_for(suffix, BODIES[suffix] | {"stream": True}, tokens=tokens)
    passed(exchange, cut(gzip.compress(body) if zipped else body, points), content_type, encoding)
    assert len(kept.spans) == 1


@pytest.mark.parametrize("suffix", ["/chat/completions", "/completions", "/responses", "/messages"])
@pytest.mark.parametrize("odd", [*ODD, *(b"data: " + odd + b"\n\n" for odd in ODD)], ids=repr)
def test_odd_replies_raise_nothing(suffix: str, odd: bytes, kept: Kept) -> None:
    """Deep nesting, literals that JSON does not know, numbers too large, broken text, tokens that are none."""
    for tokens in (True, False):
        for content_type in TYPES:
            passed(exchange_for(suffix, BODIES[suffix], tokens=tokens), [odd], content_type)
    assert len(kept.spans) == 2 * len(TYPES)


@pytest.mark.parametrize("suffix", dialects.DIALECTS)
@ANY
@given(body=bodies | st.dictionaries(st.sampled_from(NAMES), values).map(lambda one: json.dumps(one).encode()))
def test_any_request_is_a_call_or_none(suffix: str, body: bytes, kept: Kept) -> None:
    """A request that is none of the dialect is left alone; one that is gets its record."""
    servers.remember(BASE, {"vllm": True, "tokens": False, "logprobs_mode": None, "models": {"smol": {}}})
    exchange = recognise("POST", url_of(suffix), body)
    if exchange is not None:
        edit = exchange.plan()
        assert edit.body is None or isinstance(json.loads(edit.body), dict)
        exchange.finish(ConnectionError())


@pytest.mark.parametrize("suffix", REPLIES)
@ANY
@given(
    tokens=st.sampled_from([True, False, None]),
    stream=st.booleans(),
    points=st.lists(st.integers(0, 20000), max_size=12),
    words=st.integers(0, 20),
    n=st.integers(1, 3),
    limit=st.none() | st.integers(1, 9),
    tools=st.booleans(),
    crlf=st.booleans(),
)
def test_the_agent_sees_what_the_server_would_have_sent_without_us(
    suffix: str, tokens: bool | None, stream: bool, kept: Kept, points: list[int], crlf: bool, **shape: Any
) -> None:
    """For valid replies of every dialect, in any cut: the shown bytes, and the ids where the server tells them."""
    kept.spans.clear()
    body = asking(suffix, stream=stream, **shape)
    exchange = exchange_for(suffix, body, tokens=tokens)
    switches = Switches(words=shape["words"], crlf=crlf)
    sent, content_type, request = answer(suffix, body | exchange.edit.added, switches)
    expected, _, _ = answer(suffix, body, switches)
    assert passed(exchange, cut(sent, points), content_type) == expected
    (span,) = kept.spans
    assert span.status == "ok", span.error
    assert [choice.finish_reason for choice in span.choices] == [one.finish_reason for one in request.choices]
    if tokens and FIELD in exchange.edit.added:
        assert [list(choice.completion_ids) for choice in span.choices] == [one.ids for one in request.choices]
        assert span.trainable, span.reason


def asking(suffix: str, *, words: int, n: int, limit: int | None, tools: bool, stream: bool) -> dict[str, Any]:
    """A request for n choices of at most `limit` tokens, where the dialect can say that."""
    body = dict(BODIES[suffix])
    if suffix.endswith("ompletions"):
        body |= {"n": n}
    names = {"/responses": "max_output_tokens", ":generateContent": "", ":streamGenerateContent": "", "/api/chat": ""}
    if limit is not None and (name := names.get(suffix, "max_tokens")):
        body[name] = limit
    if tools and suffix in TOOLS:
        body["tools"] = TOOLS[suffix]
    return body if suffix.startswith(":") else body | {"stream": stream}


def answer(suffix: str, body: dict[str, Any], switches: Switches) -> tuple[bytes, str, Request]:
    """The fake server's bytes, without the network."""
    tells = bool(body.get(FIELD))
    asked = REPLIES[suffix].asked({key: value for key, value in body.items() if key != FIELD}, url_of(suffix))
    prompt = render(asked["messages"], asked.get("tools"))
    request = Request("POST", suffix, {}, b"", prompt_ids=[token_id(token) for token in prompt])
    request.choices = [sample(prompt, index, asked, switches) for index in range(asked.get("n") or 1)]
    reply, told = REPLIES[suffix](asked, request, switches), to_json(told_of(request))
    if asked.get("stream"):
        return b"".join(_telling(reply.events(), told) if tells else reply.events()), reply.content_type, request
    whole = reply.whole()
    return whole[:-1] + b',"' + FIELD.encode() + b'":' + told + b"}" if tells else whole, "application/json", request
