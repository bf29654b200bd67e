"""Every way out of a stream, over libraries other than httpx: one record, and the connection is let go as ever."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import RunAgent
from fake_server import FakeServer

LIBRARIES = ("requests", "urllib3", "http_client", "urllib", "aiohttp", "openai_aiohttp")
# Prints for each way what the agent got, and how many more descriptors than after the first call are open.
AGENT = """
import asyncio, gc, json, os, sys
from urllib.parse import urlsplit
library, URL = sys.argv[1], sys.argv[2] + "/chat/completions"
SLOW, CUT = "smol+chunk_delay=0.6", "smol+drop_after=4"
HEADERS = {"Content-Type": "application/json"}
seen = []

def body(way, model=None, stream=True):
    # A reply that is left is still on its way.
    model = model or ("smol" if way in ("warm-up", "exhaust", "lines", "whole") else "smol+chunk_delay=0.05")
    return {"model": model, "messages": [{"role": "user", "content": "x"}], "stream": stream, "user": way}

def encoded(way, model):
    return json.dumps(body(way, model)).encode()

def descriptors():
    for _ in range(3):
        gc.collect()
    return len(os.listdir("/proc/self/fd"))

def said(way, outcome):
    seen.append((way, outcome, descriptors() - base))

# -- a library is a function that asks and gives the reply, its pieces, and what closes it

def requests():
    import requests
    session = requests.Session()
    def ask(way, model=None, limit=None):
        reply = session.post(URL, json=body(way, model), stream=True, timeout=limit)
        return reply, reply.iter_content(1), reply.close
    return ask

def urllib3():
    import urllib3
    pool = urllib3.PoolManager()
    def ask(way, model=None, limit=None):
        reply = pool.request("POST", URL, body=encoded(way, model), headers=HEADERS, preload_content=False,
                             timeout=limit, retries=False)
        return reply, reply.stream(8), reply.close
    return ask

def http_client():
    import http.client
    def ask(way, model=None, limit=None):
        connection = http.client.HTTPConnection(urlsplit(URL).netloc, timeout=limit)
        connection.request("POST", urlsplit(URL).path, encoded(way, model), HEADERS)
        reply = connection.getresponse()
        def close():
            reply.close()
            connection.close()
        return reply, iter(reply), close
    return ask

def urllib():
    import urllib.request
    def ask(way, model=None, limit=None):
        reply = urllib.request.urlopen(urllib.request.Request(URL, encoded(way, model), HEADERS), timeout=limit)
        return reply, iter(reply), reply.close
    return ask

def sync(ask):
    global base
    base = 0
    reply, parts, close = ask("warm-up")
    b"".join(parts)
    del reply, parts, close
    base = descriptors()

    reply, parts, close = ask("exhaust")
    text = b"".join(parts).decode("latin1")
    close()
    del reply, parts, close
    said("exhaust", text)
    reply, parts, close = ask("break")
    for part in parts:
        break
    close()
    del reply, parts, close
    said("break", len(part))
    reply, parts, close = ask("close unread")
    close()
    del reply, parts, close
    said("close unread", None)
    try:
        reply, parts, close = ask("exception")
        try:
            for part in parts:
                raise ValueError("the agent's own")
        finally:
            close()
    except ValueError as error:
        outcome = str(error)
    del reply, parts, close
    said("exception", outcome)
    reply, parts, close = ask("drop")
    next(parts)
    del reply, parts, close
    said("drop", None)
    reply, parts, close = ask("drop unread")
    del reply, parts, close
    said("drop unread", None)
    for way, model in (("timeout", SLOW), ("cut", CUT)):
        outcome = reply = parts = close = None
        try:
            reply, parts, close = ask(way, model, 10)
            if way == "timeout":
                shorten(reply)
            b"".join(parts)
        except Exception as error:
            outcome = type(error).__name__
        del reply, parts, close
        said(way, outcome)

def shorten(reply):
    # The head came in time; the first event is 0.6 s away.
    raw = getattr(reply, "raw", reply)
    raw = getattr(raw, "_fp", raw)
    raw = getattr(raw, "fp", raw)
    raw.raw._sock.settimeout(0.2)

async def over_aiohttp(ask):
    import aiohttp
    global base
    base = 0
    async with ask("warm-up") as reply:
        await reply.read()
    del reply
    base = descriptors()

    async with ask("exhaust") as reply:
        text = (await reply.read()).decode("latin1")
    del reply
    said("exhaust", text)
    async with ask("lines") as reply:
        text = b"".join([line async for line in reply.content]).decode("latin1")
    del reply
    said("lines", text)
    async with ask("break") as reply:
        async for part in reply.content:
            break
    del reply
    said("break", len(part))
    async with ask("close unread") as reply:
        pass
    del reply
    said("close unread", None)
    reply = await ask("close")
    await reply.content.readany()
    reply.close()
    del reply
    said("close", None)
    try:
        async with ask("exception") as reply:
            async for part in reply.content:
                raise ValueError("the agent's own")
    except ValueError as error:
        outcome = str(error)
    del reply
    said("exception", outcome)
    reply = await ask("drop")
    await reply.content.readline()
    del reply
    gc.collect()
    await asyncio.sleep(0.01)
    said("drop", None)
    async def read(way, model=None, **more):
        async with ask(way, model, **more) as reply:
            return len(await reply.read())
    for way, model, limit in (("waited for", SLOW, None), ("timeout", SLOW, 0.3), ("cut", CUT, None)):
        try:
            timeout = aiohttp.ClientTimeout(sock_read=limit)
            async with ask(way, model, timeout=timeout) as reply:
                await asyncio.wait_for(reply.read(), 0.9 if way == "waited for" else None)
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            outcome = type(error).__name__
        reply = None
        await asyncio.sleep(0.01)
        said(way, outcome)
    task = asyncio.create_task(read("cancelled", SLOW))
    await asyncio.sleep(0.9)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    del task
    await asyncio.sleep(0.01)
    said("cancelled", None)
    task = asyncio.create_task(read("cancelled before the head", wait=True))
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    del task
    await asyncio.sleep(0.01)
    said("cancelled before the head", None)

async def aiohttp():
    import aiohttp
    async with aiohttp.ClientSession() as session:
        def ask(way, model=None, wait=False, **more):
            return session.post(URL, json=body(way, model), headers={"X-Wait": "1"} if wait else {}, **more)
        await over_aiohttp(ask)

async def openai_aiohttp():
    import openai
    global base
    base = 0
    async with openai.DefaultAioHttpClient() as http:
        client = openai.AsyncOpenAI(base_url=sys.argv[2], api_key="x", max_retries=0, http_client=http)
        def ask(way, model=None):
            return client.chat.completions.create(**body(way, model))
        stream = await ask("warm-up")
        [chunk async for chunk in stream]
        del stream
        base = descriptors()
        stream = await ask("exhaust")
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        del stream
        said("exhaust", text)
        reply = await client.chat.completions.create(**body("whole", "smol", False))
        said("whole", reply.choices[0].message.content)
        stream = await ask("break")
        async for chunk in stream:
            break
        await stream.close()
        del stream
        said("break", None)
        stream = await ask("close unread")
        await stream.close()
        del stream
        said("close unread", None)
        try:
            async with await ask("exception") as stream:
                async for chunk in stream:
                    raise ValueError("the agent's own")
        except ValueError as error:
            outcome = str(error)
        del stream
        said("exception", outcome)
        try:
            [chunk async for chunk in await ask("cut", CUT)]
        except Exception as error:
            outcome = type(error).__name__
        said("cut", outcome)
        async def read(way, model):
            return [chunk async for chunk in await ask(way, model)]
        task = asyncio.create_task(read("cancelled", SLOW))
        await asyncio.sleep(0.9)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        await asyncio.sleep(0.01)
        said("cancelled", None)

made = globals()[library]()
asyncio.run(made) if asyncio.iscoroutine(made) else sync(made)
print(json.dumps(seen))
"""
COMPLETE = {"warm-up", "exhaust", "lines", "whole"}


@pytest.fixture
def connections(server: FakeServer) -> list[Any]:
    """Those that the server has accepted."""
    accepted: list[Any] = []
    own = server.get_request

    def get_request() -> Any:
        made = own()
        accepted.append(made[1])
        return made

    server.get_request = get_request
    return accepted


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_way_out_is_one_record_and_lets_the_connection_go(
    run_agent: RunAgent, server: FakeServer, connections: list[Any], library: str
) -> None:
    """Same outcomes, open descriptors and number of connections as without capture; "partial" but for whole replies."""
    handler: Any = server.RequestHandlerClass

    class Handler(handler):
        def _received(self) -> Any:
            request = super()._received()
            if "x-wait" in request.headers:
                import time

                time.sleep(1)
            return request

    server.RequestHandlerClass = Handler  # type: ignore[assignment]
    plain = run_agent(AGENT, library, server.url, capture=False)
    needed = len(connections)
    server.requests.clear()
    connections.clear()
    run = run_agent(AGENT, library, server.url)
    for with_us, without in zip(run.result, plain.result, strict=True):
        assert with_us == without
    assert run.stderr == plain.stderr
    assert run.events("lost") == []
    asked = sum(request.method == "GET" for request in server.requests)  # once for each of the four models
    ours = asked if library in ("http_client", "urllib") else 0  # over connections of their own there
    assert len(connections) == needed + ours
    spans = sorted(run.spans, key=lambda span: span.started_at)
    calls = {call.json["user"]: call for call in server.calls}
    assert len(spans) == len(calls) == len(server.calls)
    for (way, call), span in zip(calls.items(), spans, strict=True):
        if way in COMPLETE:
            assert span.status == "ok" and span.trainable, (way, span.status, span.reason)
            assert list(span.completion_ids or ()) == call.choices[0].ids
        elif way == "cancelled before the head":
            assert (span.status, span.error) == ("error", "CancelledError"), (way, span.status)
        else:
            assert span.status == "partial" and not span.trainable, (way, span.status, span.error)
            arrived = list(span.completion_ids or ())
            assert arrived == call.choices[0].ids[: len(arrived)]
