"""Requests written by hand: one record each, and the bytes that the agent expects."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import RunAgent
from fake_server import FakeServer

BY_HAND = """
import asyncio, io, json, sys
import httpx, httpx2, requests

URL = sys.argv[1] + "/chat/completions"
view = {}

def body(stream=False, **more):
    return {"model": "smol", "messages": [{"role": "user", "content": "by hand"}], "stream": stream, **more}

def over_httpx(name, library):
    reply = library.post(URL, json=body(), headers={"X-Mine": "1"})
    view[name] = reply.json(), reply.headers["content-length"], str(reply.url), reply.request.content.decode()
    view[name + " raw body"] = library.post(URL, content=json.dumps(body(n=2)), timeout=10).text
    with library.Client() as client, client.stream("POST", URL, json=body(True)) as reply:
        view[name + " lines"] = list(reply.iter_lines())
    with library.Client() as client, client.stream("POST", URL, json=body(True)) as reply:
        view[name + " bytes"] = "".join(part.decode("latin1") for part in reply.iter_bytes(1))
    with library.Client() as client:
        reply = client.send(client.build_request("POST", URL, json=body()), stream=True)
        view[name + " late"] = reply.read().decode(), reply.is_closed, reply.is_stream_consumed

    async def asynchronous():
        async with library.AsyncClient() as client:
            view[name + " async"] = (await client.post(URL, json=body())).json()
            async with client.stream("POST", URL, json=body(True)) as reply:
                view[name + " alines"] = [line async for line in reply.aiter_lines()]
            reply = await client.send(client.build_request("POST", URL, json=body(True)), stream=True)
            for wrong in (reply.close, reply.read):
                try:
                    wrong()
                except RuntimeError as error:
                    view[f"{name} {wrong.__name__}"] = str(error)
            await reply.aclose()
    asyncio.run(asynchronous())

def over_requests():
    reply = requests.post(URL, json=body())
    view["requests"] = reply.json(), reply.headers["content-length"], reply.url, reply.request.body.decode()
    session = requests.Session()
    def post(**more):
        return session.post(URL, json=body(True, **more), stream=True)
    view["lines"] = [line.decode() for line in post().iter_lines()]
    view["one"] = b"".join(post().iter_content(1)).decode()
    view["content"] = b"".join(post(n=2).iter_content(None)).decode()
    view["read"] = post().raw.read().decode()
    raw, parts = post().raw, []
    while part := raw.read(10):
        parts.append(part)
    view["read 10"] = [len(part) for part in parts[:-1]], b"".join(parts).decode()
    raw = post().raw
    raw.auto_close = False  # else urllib3 closes the file below its reader
    view["buffered"] = [line.decode() for line in io.BufferedReader(raw)]
    raw = post().raw
    raw.auto_close = False
    view["text"] = list(io.TextIOWrapper(raw, encoding="utf-8"))
    view["iterated"] = b"".join(post().raw).decode()
    view["whole, streamed"] = session.post(URL, json=body(), stream=True).raw.read().decode()
    with session.post(URL, json=body(True), stream=True) as reply:
        view["with"] = next(reply.iter_lines()).decode(), type(reply.raw).__name__

over_httpx("httpx", httpx)
over_httpx("httpx2", httpx2)
over_requests()
print(json.dumps(view))
"""


def test_requests_by_hand_are_recorded_and_answered_as_ever(run_agent: RunAgent, server: FakeServer) -> None:
    """Every way to read a reply gives the bytes that it gives without capture, and one record with the right ids."""
    plain = run_agent(BY_HAND, server.url, capture=False)
    server.requests.clear()
    captured = run_agent(BY_HAND, server.url)
    for name, expected in plain.result.items():
        assert captured.result[name] == expected, name
    assert captured.events("lost") == []
    assert {event["library"] for event in captured.events("patched")} == {"httpx", "httpx2", "urllib3", "http.client"}
    spans = captured.spans
    assert len(spans) == len(server.calls) == 2 * 8 + 11
    for span, call in zip(spans, server.calls, strict=True):
        if span.status == "ok":
            assert [list(choice.completion_ids or ()) for choice in span.choices] == [one.ids for one in call.choices]
            assert span.trainable, span.reason
    assert [span.status for span in spans].count("partial") == 3  # two that were closed unread, one left in a `with`


def test_a_server_that_compresses_against_our_wish_is_recorded(run_agent: RunAgent, server: FakeServer) -> None:
    """The agent reads the same text, whole and streamed, and a stream's pieces come as they arrive."""
    agent = """
    import httpx, json, requests, sys, time
    url, view, times = sys.argv[1] + "/chat/completions", [], []
    for stream in (False, True):
        body = {"model": "smol+gzip=always+chunk_delay=0.03", "messages": [], "stream": stream}
        with httpx.stream("POST", url, json=body) as reply:
            for part in reply.iter_text():
                times.append(time.monotonic())
                view.append(part)
        view.append(requests.post(url, json=body).text)
    print(json.dumps(["omega" in "".join(view) or "alpha" in "".join(view), times[-1] - times[1]]))
    """
    run = run_agent(agent, server.url)
    assert run.result[1] > 0.15  # ten events 30 ms apart
    assert len(run.spans) == 4
    for span, call in zip(run.spans, server.calls, strict=True):
        assert list(span.completion_ids or ()) == call.choices[0].ids
        assert span.text == call.choices[0].message["content"]
        assert span.trainable


def test_chunks_arrive_when_the_server_sends_them(run_agent: RunAgent, server: FakeServer) -> None:
    """Ten chunks 50 ms apart arrive spread out over that time, sync and async, by hand and over the SDK."""
    agent = """
    import asyncio, json, sys, time
    import httpx, openai, requests
    body = {"model": "smol+chunk_delay=0.05", "messages": [{"role": "user", "content": "slow"}], "stream": True}
    times = {}
    def arrivals(chunks, name):
        times[name] = [time.monotonic() for chunk in chunks if chunk]
    def client():
        arrivals(openai.OpenAI(base_url=sys.argv[1], api_key="x").chat.completions.create(**body), "openai")
    with httpx.stream("POST", sys.argv[1] + "/chat/completions", json=body) as reply:
        arrivals(reply.iter_lines(), "httpx")
    arrivals(requests.post(sys.argv[1] + "/chat/completions", json=body, stream=True).iter_lines(1), "requests")
    client()
    async def main():
        client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="x")
        stream = await client.chat.completions.create(**body)
        times["async"] = [time.monotonic() async for chunk in stream]
    asyncio.run(main())
    print(json.dumps({name: [b - a for a, b in zip(t, t[1:])] for name, t in times.items()}))
    """
    run = run_agent(agent, server.url)
    for name, gaps in run.result.items():
        assert len(gaps) >= 9, name
        assert sum(gap > 0.02 for gap in gaps) >= 7, (name, gaps)


def test_only_calls_are_recorded(run_agent: RunAgent, server: FakeServer) -> None:
    """Other paths, other methods, bodies that are no chat request: passed on, asked nothing, recorded nowhere."""
    agent = """
    import httpx, json, requests, sys
    url = sys.argv[1] + "/chat/completions"
    got = [httpx.get(url).status_code, httpx.post(sys.argv[1] + "/embeddings", json={"input": "x"}).status_code]
    got.append(requests.post(sys.argv[1] + "/embeddings", data={"input": "x"}).status_code)
    got.append(httpx.post(url, json={"model": "smol", "messages": "no list"}).status_code)
    print(json.dumps(got))
    """
    run = run_agent(agent, server.url)
    assert run.result == [404, 404, 404, 400]
    assert run.spans == [] and [request.method for request in server.requests] == ["GET", "POST", "POST", "POST"]


@pytest.mark.parametrize("library", ["urllib3", "http_client", "aiohttp"])
def test_every_way_to_read_a_reply_is_what_it_was(library: str, run_agent: RunAgent, server: FakeServer) -> None:
    """Whole, streamed, compressed against our wish, redirected: the agent's view is the same, a record an exchange."""
    source = (Path(__file__).parent / "by_hand.py").read_text()
    plain = run_agent(source, server.url, library, capture=False)
    server.requests.clear()
    run = run_agent(source, server.url, library)
    for name, expected in plain.result.items():
        assert run.result[name] == expected, name
    answered = [call for call in server.calls if call.choices]  # a redirect is answered by no model
    assert run.events("lost") == [] and len(run.spans) == len(answered)
    for span, call in zip(run.spans, answered, strict=True):
        assert [list(choice.completion_ids or ()) for choice in span.choices] == [one.ids for one in call.choices]
        assert span.trainable, span.reason
