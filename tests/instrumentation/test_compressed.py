"""Compressed replies: the agent reads what it reads without us, and the record has the text or says why not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import pytest
import zstandard
from conftest import RunAgent
from fake_server import FakeServer

LIBRARIES = ("httpx", "httpx2", "httpx_async", "requests", "urllib3", "aiohttp", "http_client")
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "rot13": lambda body: body[::-1],  # which no library reads
}
# A whole call and a streamed one; prints the bytes that the library gives, and those on the wire where it offers them.
AGENT = """
import asyncio, json, sys
library, url = sys.argv[1], sys.argv[2] + "/chat/completions"
HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "gzip, deflate, br, zstd, rot13"}
BODIES = [json.dumps({"model": "smol", "messages": [{"role": "user", "content": "hi"}], "stream": stream}).encode()
          for stream in (False, True)]
seen = []

def httpx(name="httpx"):
    import importlib
    with importlib.import_module(name).Client() as client:
        for body in BODIES:
            seen.append(client.post(url, content=body, headers=HEADERS).content)
        with client.stream("POST", url, content=BODIES[1], headers=HEADERS) as reply:
            seen.append(b"".join(reply.iter_bytes()))

def httpx2():
    httpx("httpx2")

def httpx_async():
    import httpx
    async def main():
        async with httpx.AsyncClient() as client:
            for body in BODIES:
                seen.append((await client.post(url, content=body, headers=HEADERS)).content)
    asyncio.run(main())

def requests():
    import requests
    for body in BODIES:
        seen.append(requests.post(url, data=body, headers=HEADERS).content)
    seen.append(b"".join(requests.post(url, data=BODIES[1], headers=HEADERS, stream=True).iter_content(9)))

def urllib3():
    import urllib3
    pool = urllib3.PoolManager()
    for body in BODIES:
        seen.append(pool.request("POST", url, body=body, headers=HEADERS).data)
        seen.append(pool.request("POST", url, body=body, headers=HEADERS, preload_content=False).read(10 ** 6))

def aiohttp():
    import aiohttp
    async def main():
        async with aiohttp.ClientSession() as session:
            for body in BODIES:
                async with session.post(url, data=body, headers=HEADERS) as reply:
                    seen.append(await reply.read())
    asyncio.run(main())

def http_client():
    import brotli, http.client, zlib, zstandard
    from urllib.parse import urlsplit
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    reads = {"gzip": lambda data: zlib.decompress(data, 31), "deflate": zlib.decompress, "br": brotli.decompress,
             "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}
    for body in BODIES:
        connection.request("POST", urlsplit(url).path, body, HEADERS)
        reply = connection.getresponse()
        seen.append(reads.get(reply.getheader("content-encoding"), bytes)(reply.read()))
    connection.close()

try:
    globals()[library]()
except Exception as error:
    seen.append(type(error).__name__.encode())
print(json.dumps([data.decode("latin1") for data in seen]))
"""


def compressing(server: FakeServer, encoding: str) -> None:
    """The server compresses whether it is asked to or not; a stream comes in pieces of 50 bytes."""
    own: Any = server.RequestHandlerClass

    class Handler(own):
        def _whole(self, request: Any, switches: Any, body: bytes) -> None:
            self._send(request, 200, ENCODINGS[encoding](body), content_encoding=encoding)

        def _stream(self, request: Any, switches: Any, events: Iterator[bytes], content_type: str) -> None:
            request.status = 200
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Encoding", encoding)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            body = ENCODINGS[encoding](b"".join(events))
            for start in range(0, len(body), 50):
                self._chunk(body[start : start + 50])
            self.wfile.write(b"0\r\n\r\n")

    server.RequestHandlerClass = Handler  # type: ignore[assignment]


READ = [(library, encoding) for library in LIBRARIES for encoding in ("gzip", "deflate", "br", "zstd")]
# They want `backports.zstd`, which is not for every Python that is tested.
READ = [pair for pair in READ if pair not in {(name, "zstd") for name in ("httpx2", "requests", "urllib3", "aiohttp")}]


@pytest.mark.parametrize("owner", ["vllm", "someone"])
@pytest.mark.parametrize(("library", "encoding"), READ)
def test_what_the_agents_library_decompresses_is_recorded(
    run_agent: RunAgent, server: FakeServer, library: str, encoding: str, owner: str
) -> None:
    """Upgraded calls (of a vLLM) and calls that go out as they are: a record each, with the text; ids from a vLLM."""
    compressing(server, encoding)
    server.owned_by = owner
    plain = run_agent(AGENT, library, server.url, capture=False)
    server.requests.clear()
    run = run_agent(AGENT, library, server.url)
    assert run.result == plain.result
    assert run.events("lost") == []
    assert len(run.spans) == len(server.calls) >= 2
    for span, call in zip(run.spans, server.calls, strict=True):
        assert span.text == call.choices[0].message["content"], span.reason
        assert span.trainable == (owner == "vllm"), span.reason


@pytest.mark.parametrize("owner", ["vllm", "someone"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_encoding_that_nobody_reads_reaches_the_agent_and_is_said(
    run_agent: RunAgent, server: FakeServer, library: str, owner: str
) -> None:
    compressing(server, "rot13")
    server.owned_by = owner
    plain = run_agent(AGENT, library, server.url, capture=False)
    server.requests.clear()
    run = run_agent(AGENT, library, server.url)
    if owner == "someone":  # else what was added to the reply cannot be taken out of it
        assert run.result == plain.result
    assert len(run.result) == len(plain.result)
    assert run.events("lost") == []
    assert len(run.spans) == len(server.calls) >= 2
    for span in run.spans:
        assert span.reason == "the reply could not be read: content encoding 'rot13' is not read"


def test_what_cannot_be_decompressed_for_want_of_a_library_is_said(run_agent: RunAgent, server: FakeServer) -> None:
    """No brotli in the agent's environment: it gets the compressed bytes as it would without us."""
    compressing(server, "br")
    server.owned_by = "someone"
    agent = "import sys\nsys.modules['brotli'] = sys.modules['brotlicffi'] = None\n" + AGENT
    plain = run_agent(agent, "httpx", server.url, capture=False)
    run = run_agent(agent, "httpx", server.url)
    assert run.result == plain.result
    assert len(run.spans) == 3
    assert {span.reason for span in run.spans} == {"the reply could not be read: content encoding 'br' is not read"}
