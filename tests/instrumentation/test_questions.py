"""GET /models, which tells what a server is: how often it is asked, how long it may take, who may notice it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from conftest import RunAgent
from fake_server import FakeServer

LIBRARIES = ("httpx", "httpx_async", "requests", "urllib3", "aiohttp", "http_client")
AGENT = """
import asyncio, json, sys
library, url, calls = sys.argv[1], sys.argv[2] + "/chat/completions", int(sys.argv[3])
body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}]}
HEADERS = {"Content-Type": "application/json"}

def httpx():
    import httpx
    with httpx.Client(timeout=60) as client:
        return [client.post(url, json=body).status_code for _ in range(calls)]

def httpx_async():
    import httpx
    async def main():
        async with httpx.AsyncClient(timeout=None) as client:
            return [(await client.post(url, json=body)).status_code for _ in range(calls)]
    return asyncio.run(main())

def requests():
    import requests
    return [requests.post(url, json=body).status_code for _ in range(calls)]

def urllib3():
    import urllib3
    pool = urllib3.PoolManager()
    return [pool.request("POST", url, body=json.dumps(body), headers=HEADERS).status for _ in range(calls)]

def aiohttp():
    import aiohttp
    async def main():
        async with aiohttp.ClientSession() as session:
            seen = []
            for _ in range(calls):
                async with session.post(url, json=body) as reply:
                    await reply.read()
                    seen.append(reply.status)
            return seen
    return asyncio.run(main())

def http_client():
    import http.client
    from urllib.parse import urlsplit
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    seen = []
    for _ in range(calls):
        connection.request("POST", urlsplit(url).path, json.dumps(body), HEADERS)
        reply = connection.getresponse()
        reply.read()
        seen.append(reply.status)
    connection.close()
    return seen

print(json.dumps(globals()[library]()))
"""


def answer_questions(server: FakeServer, answer: Any) -> None:
    """`answer` takes the handler's place in every GET."""
    own: Any = server.RequestHandlerClass
    server.RequestHandlerClass = type("Handler", (own,), {"do_GET": answer})  # type: ignore[assignment]


def questions(server: FakeServer) -> list[str]:
    return [request.path for request in server.requests if request.method == "GET"]


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_question_that_is_refused_is_not_repeated_at_every_call(
    run_agent: RunAgent, server: FakeServer, library: str, status: int
) -> None:
    """Three calls, one question; the records say why they have no ids."""
    answer_questions(server, lambda handler: handler._send(handler._received(), status, b"busy"))
    run = run_agent(AGENT, library, server.url, "3")
    assert run.result == [200, 200, 200]
    assert questions(server) == ["/v1/models"]
    assert [span.status for span in run.spans] == ["ok"] * 3
    assert {span.reason for span in run.spans} == {
        f"no token ids: {server.url[7:-3]} could not be asked what it is (HTTP {status})"
    }


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_server_that_lets_us_wait_delays_the_agent_by_seconds_once(
    run_agent: RunAgent, server: FakeServer, library: str
) -> None:
    """GET /models is never answered, and the agent itself would wait a minute, or for ever."""

    def silent(handler: Any) -> None:
        handler._received()
        time.sleep(45)

    answer_questions(server, silent)
    started = time.monotonic()
    run = run_agent(AGENT, library, server.url, "2")
    assert time.monotonic() - started < 15
    assert run.result == [200, 200]
    assert questions(server) == ["/v1/models"]
    assert all("could not be asked what it is" in str(span.reason) for span in run.spans)


def test_what_an_aiohttp_session_traces_and_raises_is_the_agent_s_own_requests(
    run_agent: RunAgent, server: FakeServer
) -> None:
    """No question of ours in its traces, no error from one that gives 404; its own 400 raises as ever."""
    answer_questions(server, lambda handler: handler._send(handler._received(), 404, b""))
    agent = """
    import aiohttp, asyncio, json, sys
    seen = []
    async def started(session, context, params):
        seen.append([params.method, str(params.url)])
    async def main():
        traced = aiohttp.TraceConfig()
        traced.on_request_start.append(started)
        body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}]}
        async with aiohttp.ClientSession(trace_configs=[traced], raise_for_status=True) as session:
            for model in ("smol", "smol+status=400"):
                try:
                    async with session.post(sys.argv[1] + "/chat/completions", json={**body, "model": model}) as reply:
                        seen.append(await reply.text())
                except aiohttp.ClientResponseError as error:
                    seen.append([error.status, str(error.request_info.url)])
    asyncio.run(main())
    print(json.dumps(seen))
    """
    plain = run_agent(agent, server.url, capture=False)
    server.requests.clear()
    run = run_agent(agent, server.url)
    assert run.result == plain.result
    assert questions(server) == ["/v1/models"]
    assert [span.http_status for span in run.spans] == [200, 400]
    policy = FakeServer()
    try:
        routed = run_agent(agent, server.url, env={"AGENTLIGHT_POLICY": policy.url})
        assert routed.result[0] == ["POST", policy.url + "/chat/completions"]
        assert routed.result[3] == plain.result[3]
        assert len(routed.result) == len(plain.result)
    finally:
        policy.close()


def test_a_connection_class_of_the_agent_s_own_takes_our_question_too(
    run_agent: RunAgent, server: FakeServer, tmp_path: Path
) -> None:
    """http.client over a Unix socket, as for a local engine: `connect` is the agent's, and the port is closed."""
    agent = """
    import http.client, json, os, socket, sys, threading
    from urllib.parse import urlsplit

    path, port = sys.argv[2], urlsplit(sys.argv[1]).port
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    def copy(source, target):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    def accept():
        while True:
            ours, _ = listener.accept()
            theirs = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=copy, args=(ours, theirs), daemon=True).start()
            threading.Thread(target=copy, args=(theirs, ours), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()

    class Unix(http.client.HTTPConnection):
        def __init__(self, path):
            super().__init__("localhost", 1)
            self.path = path
        def connect(self):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self.path)
    connection = Unix(path)
    body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    print(json.dumps(connection.getresponse().read().decode()))
    """
    plain = run_agent(agent, server.url, str(tmp_path / "a"), capture=False)
    server.requests.clear()
    run = run_agent(agent, server.url, str(tmp_path / "b"))
    assert run.result == plain.result
    assert questions(server) == ["/v1/models"]
    assert [span.trainable for span in run.spans] == [True], [span.reason for span in run.spans]
