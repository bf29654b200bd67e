"""The pure parts: cutting an event stream, and reading a reply while taking out what was added for capture."""

from __future__ import annotations

import json
import random

import pytest
from fake_model import Reply, Request, Switches, render, sample, token_id

from agentlight_instrumentation.dialects.openai_chat import Reader, additions, read_request
from agentlight_instrumentation.encodings import decode
from agentlight_instrumentation.framing import Events, with_payload

TOOLS = [{"function": {"name": "weather"}}, {"function": {"name": "time"}}]


def reply_to(body: dict, switches: Switches) -> tuple[Request, Reply]:
    prompt = render(body["messages"], body.get("tools"))
    request = Request("POST", "/", {}, b"", prompt_ids=[token_id(token) for token in prompt])
    request.choices = [sample(prompt, index, body, switches) for index in range(body.get("n", 1))]
    return request, Reply(body, request, switches)


def cuts(data: bytes, draw: random.Random) -> list[bytes]:
    points = sorted(draw.randrange(len(data) + 1) for _ in range(draw.randrange(1, 40)))
    return [data[start:end] for start, end in zip([0, *points], [*points, len(data)], strict=True)]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_any_cut_gives_the_same_events(newline: bytes) -> None:
    """200 random cuts, down to single bytes: same events, and their join is the stream."""
    lines = [
        b"event: x",
        b"data: {1}",
        b"",
        b": comment",
        b"",
        b"data:two",
        b"data: lines",
        b"",
        b"id: 3",
        b"",
        b"data: [DONE]",
    ]
    stream = newline.join([*lines, b"", b""])
    expected = list(Events().feed(stream))
    assert [Events().payload(event) for event in expected] == [b"{1}", None, b"two\nlines", None, b"[DONE]"]
    draw = random.Random(0)
    for chunks in [[stream[i : i + 1] for i in range(len(stream))], *(cuts(stream, draw) for _ in range(200))]:
        events = Events()
        got = [event for chunk in chunks for event in events.feed(chunk)]
        assert b"".join(got) + events.rest == stream
        assert [Events().payload(event) for event in got] == [Events().payload(event) for event in expected]


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("style", ["plain", "interleaved", "same_index", "same_index_ids"])
def test_a_read_stream_is_shown_as_if_nothing_had_been_added(style: str, n: int, tools: list | None) -> None:
    """What is shown equals what the server sends to who does not ask, and the record equals the truth."""
    body = {"messages": [{"role": "user", "content": "x"}], "n": n, "stream": True}
    if tools:
        body["tools"] = tools
    added = additions(body)
    request, full = reply_to({**body, **added}, Switches(tool_style=style))
    _, plain = reply_to(body, Switches(tool_style=style))
    reader = Reader(frozenset(added))
    shown = []
    for event in full.events():
        data = Events().payload(event) or b""
        seen = data if data == b"[DONE]" else reader.add(data)
        if seen is not None:
            shown.append(with_payload(event, data, seen))
    assert b"".join(shown) == b"".join(plain.events())
    _check(reader, request)


@pytest.mark.parametrize("n", [1, 2])
def test_a_read_whole_reply_is_shown_as_if_nothing_had_been_added(n: int) -> None:
    """Byte for byte, with JSON spaced or not."""
    body = {"messages": [{"role": "user", "content": 'say "token_ids":[1] and "logprobs":null'}], "n": n}
    added = additions(body)
    request, full = reply_to({**body, **added}, Switches())
    _, plain = reply_to(body, Switches())
    reader = Reader(frozenset(added))
    assert reader.add(full.whole()) == plain.whole()
    _check(reader, request)
    spaced = Reader(frozenset(added))
    assert spaced.add(json.dumps(json.loads(full.whole())).encode()) == json.dumps(json.loads(plain.whole())).encode()
    _check(spaced, request)


def _check(reader: Reader, request: Request) -> None:
    assert list(reader.prompt_ids or ()) == request.prompt_ids
    for choice, sampled in zip(reader.choices(), request.choices, strict=True):
        assert list(choice.completion_ids or ()) == sampled.ids
        assert list(choice.completion_logprobs or ()) == sampled.logprobs
        assert (choice.text or None) == sampled.message["content"]
        assert choice.tool_calls == sampled.message.get("tool_calls")
        assert choice.finish_reason == sampled.finish_reason
    assert reader.usage["output_tokens"] == sum(len(sampled.ids) for sampled in request.choices)


def test_text_that_looks_like_our_fields_stays(tmp_path) -> None:
    """A model that writes about token_ids keeps its words."""
    text = 'a "token_ids":[5], "logprobs":{} and \\"token_ids\\":[5]'
    choice = {"index": 0, "message": {"content": text}, "logprobs": None, "token_ids": [5]}
    payload = json.dumps({"choices": [choice], "prompt_token_ids": [5]}, separators=(",", ":")).encode()
    seen = json.loads(Reader(frozenset(["return_token_ids"])).add(payload) or b"")
    assert seen["choices"][0]["message"]["content"] == text
    assert (seen["choices"][0]["token_ids"], seen["prompt_token_ids"]) == (None, None)


def test_what_the_agent_set_is_not_added() -> None:
    """Each of the three fields is the agent's when it names it, whatever the value."""
    assert additions({"messages": []}) == {"return_token_ids": True, "logprobs": True}
    assert additions({"stream": True, "logprobs": False, "stream_options": {}}) == {"return_token_ids": True}
    assert additions({"stream": False, "return_token_ids": False}) == {"logprobs": True}
    assert additions({"logprobs": None}) == {"return_token_ids": True, "logprobs": True}  # null sets nothing
    assert additions({"top_logprobs": 2}) == {"return_token_ids": True}  # an error of the agent's stays one


def test_sampling_settings_have_one_name_each() -> None:
    """`max_completion_tokens` is kept as `max_tokens`; null is not set; unknown fields are not kept."""
    body = {"messages": [], "max_completion_tokens": 5, "temperature": 0, "top_p": None, "secret": "x"}
    assert read_request(body)["sampling"] == {"temperature": 0, "max_tokens": 5}


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"[]", b"{", b'{"choices":[{"index":"x"}]}', b'{"choices":[{"token_ids":[-1]}]}',
     b'{"prompt_token_ids":[4294967296]}', b'{"choices":[{"token_ids":["a"]}]}'],
)  # fmt: skip
def test_a_payload_of_another_kind_is_a_value_error(payload: bytes) -> None:
    """Never an exception of another class, which would look like a fault of ours."""
    import msgspec

    with pytest.raises((msgspec.DecodeError, ValueError)):
        Reader(frozenset(["return_token_ids"])).add(payload)


@pytest.mark.parametrize("fragment", ['{"function":{"arguments":{"a":1}}}', '{"function":null}', "3", '{"index":null}'])
def test_a_tool_call_of_another_shape_costs_no_more_than_itself(fragment: str) -> None:
    """Servers differ; what cannot be joined is left out, and the ids beside it are kept."""
    payload = '{"choices":[{"index":0,"delta":{"tool_calls":[HERE]},"token_ids":[7]}]}'
    reader = Reader()
    reader.add(payload.replace("HERE", fragment).encode())
    assert list(reader.choices()[0].completion_ids or ()) == [7]


def test_compressed_replies_are_read_as_far_as_they_came() -> None:
    """gzip, zlib and raw deflate, whole or cut short; what cannot be read is a ValueError."""
    import gzip
    import zlib

    text = bytes(random.Random(0).randrange(97, 123) for _ in range(100_000))
    raw = zlib.compressobj(wbits=-15)
    for encoding, data in (
        ("gzip", gzip.compress(text)), ("deflate", zlib.compress(text)), ("deflate", raw.compress(text) + raw.flush()),
    ):  # fmt: skip
        assert decode(data, encoding) == text
        part = decode(data[: len(data) // 2], encoding)
        assert part and text.startswith(part)
    for encoding, data in (("gzip", b"no gzip"), ("compress", b"x")):
        with pytest.raises(ValueError):
            decode(data, encoding)
