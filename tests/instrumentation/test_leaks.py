"""Thousands of calls in one process: neither descriptors nor memory grow with them."""

from __future__ import annotations

import pytest
from conftest import RunAgent
from fake_server import FakeServer

LIBRARIES = ("httpx", "httpx2", "httpx_async", "requests", "urllib3", "aiohttp", "http_client", "urllib")
# Prints, after a first part that warms up and after each of two equal parts, the open descriptors and the memory that
# Python has allocated, in bytes.
AGENT = """
import asyncio, gc, json, os, sys, tracemalloc
from urllib.parse import urlsplit
library, URL = sys.argv[1], sys.argv[2] + "/chat/completions"
HEADERS = {"Content-Type": "application/json"}
PART = 500, 250  # calls that are read, and streams that are left
seen = []

def body(stream):
    return {"model": "smol", "messages": [{"role": "user", "content": "x"}], "stream": stream}

BODIES = [json.dumps(body(stream)).encode() for stream in (False, True)]

def measure():
    for _ in range(3):
        gc.collect()
    seen.append([len(os.listdir("/proc/self/fd")), tracemalloc.get_traced_memory()[0]])

def parts(read, leave):
    for calls, streams in ((50, 50), PART, PART):
        for number in range(calls):
            read(number % 2)
        for number in range(streams):
            leave()
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        else:
            measure()

async def parts_async(read, leave):
    for calls, streams in ((50, 50), PART, PART):
        for number in range(calls):
            await read(number % 2)
        for number in range(streams):
            await leave()
        await asyncio.sleep(0.05)
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        else:
            measure()

def httpx(name="httpx"):
    import importlib
    with importlib.import_module(name).Client() as client:
        def leave():
            with client.stream("POST", URL, content=BODIES[1], headers=HEADERS) as reply:
                next(reply.iter_lines())
        parts(lambda stream: client.post(URL, content=BODIES[stream], headers=HEADERS).content, leave)

def httpx2():
    httpx("httpx2")

def httpx_async():
    import httpx
    async def main():
        async with httpx.AsyncClient() as client:
            async def read(stream):
                await client.post(URL, content=BODIES[stream], headers=HEADERS)
            async def leave():
                async with client.stream("POST", URL, content=BODIES[1], headers=HEADERS) as reply:
                    async for line in reply.aiter_lines():
                        break
            await parts_async(read, leave)
    asyncio.run(main())

def requests():
    import requests
    session = requests.Session()
    def leave():
        next(session.post(URL, data=BODIES[1], headers=HEADERS, stream=True).iter_content(5))
    parts(lambda stream: session.post(URL, data=BODIES[stream], headers=HEADERS).content, leave)

def urllib3():
    import urllib3
    pool = urllib3.PoolManager()
    def leave():
        reply = pool.request("POST", URL, body=BODIES[1], headers=HEADERS, preload_content=False)
        next(reply.stream(5))
    parts(lambda stream: pool.request("POST", URL, body=BODIES[stream], headers=HEADERS).data, leave)

def aiohttp():
    import aiohttp
    async def main():
        async with aiohttp.ClientSession() as session:
            async def read(stream):
                async with session.post(URL, data=BODIES[stream], headers=HEADERS) as reply:
                    await reply.read()
            async def leave():
                async with session.post(URL, data=BODIES[1], headers=HEADERS) as reply:
                    await reply.content.readline()
            await parts_async(read, leave)
    asyncio.run(main())

def http_client():
    import http.client
    kept = http.client.HTTPConnection(urlsplit(URL).netloc)
    def read(stream, connection=kept):
        connection.request("POST", urlsplit(URL).path, BODIES[stream], HEADERS)
        return connection.getresponse().read()
    def leave():
        connection = http.client.HTTPConnection(urlsplit(URL).netloc)
        connection.request("POST", urlsplit(URL).path, BODIES[1], HEADERS)
        connection.getresponse().readline()
    parts(read, leave)

def urllib():
    import urllib.request
    def ask(stream):
        return urllib.request.urlopen(urllib.request.Request(URL, BODIES[stream], HEADERS))
    parts(lambda stream: ask(stream).read(), lambda: ask(1).readline())

globals()[library]()
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_thousand_calls_and_five_hundred_left_streams_leave_nothing_behind(
    run_agent: RunAgent, server: FakeServer, library: str
) -> None:
    """500 calls and 250 left streams after 500 and 250: as many descriptors, and at most 200 bytes more a call."""
    run = run_agent(AGENT, library, server.url, timeout=300)
    assert len(run.spans) == 100 + 2 * 750
    (first_open, first_bytes), (last_open, last_bytes) = run.result
    assert last_open <= first_open + 2  # a connection that is just closing, or kept for the next call
    assert last_bytes - first_bytes < 750 * 200, f"{(last_bytes - first_bytes) / 750:.0f} bytes a call"
    assert [span.status for span in run.spans].count("ok") >= 1050
