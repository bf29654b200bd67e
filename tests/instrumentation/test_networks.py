"""TLS with a private authority, proxies, redirects: what a transport's own settings reach, ours reach as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import AgentRun, RunAgent
from fake_server import FakeServer
from networks import Proxy, private_ca

LIBRARIES = (
    "httpx",
    "httpx2",
    "httpx_async",
    "requests",
    "urllib3",
    "aiohttp",
    "aiohttp_session",
    "http_client",
    "urllib",
)

# One whole call and one streamed one over a library; the agent's own trust and proxy; prints what it got.
AGENT = """
import asyncio, json, ssl, sys
library, base, authority, proxy, extra = sys.argv[1:6]
url = base + "/chat/completions" + extra
context = ssl.create_default_context(cafile=authority or None)
proxy = proxy or None
seen = []
def body(stream):
    return {"model": "smol", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
def encoded(stream):
    return json.dumps(body(stream)).encode()
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer KEY"}

def httpx(name="httpx"):
    import importlib
    with importlib.import_module(name).Client(verify=context, proxy=proxy, follow_redirects=True) as client:
        for stream in (False, True):
            reply = client.post(url, json=body(stream), headers=HEADERS)
            seen.append((reply.status_code, reply.text, str(reply.url)))

def httpx2():
    httpx("httpx2")

def httpx_async():
    import httpx
    async def main():
        async with httpx.AsyncClient(verify=context, proxy=proxy, follow_redirects=True) as client:
            for stream in (False, True):
                reply = await client.post(url, json=body(stream), headers=HEADERS)
                seen.append((reply.status_code, reply.text, str(reply.url)))
    asyncio.run(main())

def requests():
    import requests
    proxies = {"http": proxy, "https": proxy} if proxy else None
    for stream in (False, True):
        reply = requests.post(url, json=body(stream), headers=HEADERS, verify=authority or True, proxies=proxies)
        seen.append((reply.status_code, reply.text, reply.url))

def urllib3():
    import urllib3
    kind = urllib3.ProxyManager(proxy, ssl_context=context) if proxy else urllib3.PoolManager(ssl_context=context)
    for stream in (False, True):
        reply = kind.request("POST", url, body=encoded(stream), headers=HEADERS)
        seen.append((reply.status, reply.data.decode(), reply.geturl()))

def aiohttp():
    import aiohttp
    async def main():
        async with aiohttp.ClientSession() as session:
            for stream in (False, True):
                how = {"proxy": proxy} if proxy else {}
                async with session.post(url, json=body(stream), headers=HEADERS, ssl=context, **how) as reply:
                    seen.append((reply.status, await reply.text(), str(reply.url)))
    asyncio.run(main())

def aiohttp_session():
    import aiohttp
    async def main():
        connector = aiohttp.TCPConnector(ssl=context)
        how = {"connector": connector, "proxy": proxy, "headers": HEADERS, "raise_for_status": True}
        async with aiohttp.ClientSession(cookies={"ticket": "1"}, **how) as session:
            for stream in (False, True):
                async with session.post(url, json=body(stream)) as reply:
                    seen.append((reply.status, await reply.text(), str(reply.url)))
    asyncio.run(main())

def http_client():
    import http.client
    from urllib.parse import urlsplit
    parts = urlsplit(url)
    for stream in (False, True):
        at = urlsplit(proxy) if proxy else parts
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(at.hostname, at.port, context=context)
            if proxy:
                connection.set_tunnel(parts.hostname, parts.port)
        else:
            connection = http.client.HTTPConnection(at.hostname, at.port)
        path = url if proxy and parts.scheme == "http" else parts.path + ("?" + parts.query if parts.query else "")
        connection.request("POST", path, encoded(stream), HEADERS)
        reply = connection.getresponse()
        seen.append((reply.status, reply.read().decode()))
        connection.close()

def urllib():
    import urllib.request
    handlers = [urllib.request.HTTPSHandler(context=context)]
    handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else {}))
    opener = urllib.request.build_opener(*handlers)
    for stream in (False, True):
        reply = opener.open(urllib.request.Request(url, encoded(stream), HEADERS))
        seen.append((reply.status, reply.read().decode(), reply.geturl()))

globals()[library]()
print(json.dumps(seen))
"""

FAILING = """
try:
    globals()[library]()
except Exception as error:
    seen.append((getattr(error, "code", 0), type(error).__name__))
"""


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    made.close()


@pytest.fixture
def authority(tmp_path: Path, server: FakeServer) -> Path:
    """The server speaks TLS with a certificate of a private authority."""
    path, context = private_ca(tmp_path)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return path


def compared(run_agent: RunAgent, server: FakeServer, *arguments: str, calls: int = 2) -> AgentRun:
    """The agent sees the same with and without capture; each call is one record with the ids that were sampled."""
    plain = run_agent(AGENT, *arguments, capture=False)
    server.requests.clear()
    captured = run_agent(AGENT, *arguments)
    assert captured.result == plain.result
    assert captured.events("lost") == []
    answered = [call for call in server.calls if call.choices]
    assert len(captured.spans) == len(answered) == calls
    for span, call in zip(captured.spans, answered, strict=True):
        assert span.trainable, span.reason
        assert list(span.completion_ids or ()) == call.choices[0].ids
    asked = [request for request in server.requests if request.method == "GET"]
    assert len(asked) == 1, "the server is asked once what it is"
    return captured


def secure(server: FakeServer) -> str:
    return server.url.replace("http://127.0.0.1", "https://localhost")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_private_authority_is_trusted_by_our_requests_too(
    run_agent: RunAgent, server: FakeServer, authority: Path, library: str
) -> None:
    compared(run_agent, server, library, secure(server), str(authority), "", "")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_tunnel_through_a_proxy_carries_our_requests_too(
    run_agent: RunAgent, server: FakeServer, authority: Path, proxy: Proxy, library: str
) -> None:
    """Nothing reaches the server but through CONNECT."""
    compared(run_agent, server, library, secure(server), str(authority), proxy.url, "")
    assert {line.split()[0] for line in proxy.seen} == {"CONNECT"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_forwarding_proxy_carries_our_requests_too(
    run_agent: RunAgent, server: FakeServer, proxy: Proxy, library: str
) -> None:
    compared(run_agent, server, library, server.url, "", proxy.url, "")
    assert len(proxy.seen) == 2 + 3  # two calls without capture; with it one question more


@pytest.mark.parametrize("library", ["httpx", "requests", "aiohttp", "urllib3"])
def test_the_agent_sees_where_a_redirected_reply_came_from(
    run_agent: RunAgent, server: FakeServer, library: str
) -> None:
    """307 to another path: the reply's URL is the last one, with capture as without."""
    server.switches.redirect = True
    captured = compared(run_agent, server, library, server.url, "", "", "")
    assert all("/moved/" in url for _, _, url in captured.result)


@pytest.mark.parametrize("library", ["httpx", "requests", "aiohttp"])
def test_a_session_s_cookies_go_with_our_question(run_agent: RunAgent, server: FakeServer, library: str) -> None:
    """A gateway that wants its cookie; what it sets in reply to our question is not the agent's."""
    own: Any = server.RequestHandlerClass

    class Handler(own):
        def do_GET(self) -> None:
            if "ticket=1" in (self.headers.get("Cookie") or ""):
                return super().do_GET()
            self._send(self._received(), 401, b"", set_cookie="asked=1")

    server.RequestHandlerClass = Handler  # type: ignore[assignment]
    agent = """
    import asyncio, json, sys
    library, url = sys.argv[1], sys.argv[2] + "/chat/completions"
    body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}]}
    async def main():
        import aiohttp
        jar = aiohttp.CookieJar(unsafe=True)  # else none are kept for 127.0.0.1
        async with aiohttp.ClientSession(cookies={"ticket": "1"}, cookie_jar=jar) as session:
            await (await session.post(url, json=body)).read()
            return [cookie.key for cookie in session.cookie_jar]
    if library == "aiohttp":
        names = asyncio.run(main())
    else:
        import httpx, requests
        session = httpx.Client() if library == "httpx" else requests.Session()
        session.cookies.set("ticket", "1")
        session.post(url, json=body)
        names = list(session.cookies.keys())
    print(json.dumps(names))
    """
    run = run_agent(agent, library, server.url)
    assert run.result == ["ticket"]
    assert [span.trainable for span in run.spans] == [True], [span.reason for span in run.spans]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_rerouted_call_keeps_the_key_and_reaches_a_policy_behind_a_path(
    run_agent: RunAgent, server: FakeServer, authority: Path, library: str
) -> None:
    """The agent's own server is never asked; the policy, over plain HTTP with a path in its URL, gets no key."""
    policy = FakeServer()
    try:
        url = policy.url.replace("/v1", "/models/a/v1")
        own = [library, secure(server), str(authority), "", ""]
        run = run_agent(AGENT, *own, env={"AGENTLIGHT_POLICY": url, "AGENTLIGHT_POLICY_MODEL": "smol"})
        assert [status for status, *_ in run.result] == [200, 200]
        assert server.requests == []
        assert {request.path for request in policy.calls} == {"/models/a/v1/chat/completions"}
        assert "KEY" not in str([request.headers for request in policy.requests])
        assert [span.trainable for span in run.spans] == [True, True]
    finally:
        policy.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_rerouted_call_leaves_the_agents_proxy_and_trust_behind(
    run_agent: RunAgent, server: FakeServer, proxy: Proxy, tmp_path: Path, library: str
) -> None:
    """The policy speaks TLS with an authority that the environment names and the agent's own context does not know;
    it is not reached through the proxy that the agent has for its own server."""
    agents_authority, _ = private_ca(tmp_path)
    (tmp_path / "policy").mkdir()
    authority, context = private_ca(tmp_path / "policy")
    policy = FakeServer()
    policy.socket = context.wrap_socket(policy.socket, server_side=True)
    try:
        url = secure(policy).replace("/v1", "/models/a/v1")
        env = {"AGENTLIGHT_POLICY": url, "AGENTLIGHT_POLICY_MODEL": "smol", "SSL_CERT_FILE": str(authority)}
        run = run_agent(AGENT, library, secure(server), str(agents_authority), proxy.url, "", env=env)
        assert [status for status, *_ in run.result] == [200, 200]
        assert server.requests == [] and proxy.seen == []
        assert len(policy.calls) == 2
        assert "KEY" not in str([request.headers for request in policy.requests])
        assert [span.trainable for span in run.spans] == [True, True]
    finally:
        policy.close()


@pytest.mark.parametrize("library", ["httpx", "httpx2", "httpx_async", "requests"])
def test_an_authority_from_the_environment_is_trusted_by_our_requests_too(
    run_agent: RunAgent, server: FakeServer, authority: Path, library: str
) -> None:
    agent = AGENT.replace("verify=context, ", "").replace("verify=authority or True, ", "")
    names = {"SSL_CERT_FILE": str(authority), "REQUESTS_CA_BUNDLE": str(authority)}
    run = run_agent(agent, library, secure(server), "", "", "", env=names)
    assert [status for status, *_ in run.result] == [200, 200]
    assert [span.trainable for span in run.spans] == [True, True], [span.reason for span in run.spans]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("library", ["httpx", "httpx_async", "requests", "aiohttp", "urllib3", "urllib"])
def test_a_redirect_of_any_kind_leads_where_it_leads_without_us(
    run_agent: RunAgent, server: FakeServer, library: str, status: int
) -> None:
    """Where the POST is kept (307 and 308): a record a call. A GET no model answers (404 here); some follow nothing."""
    own: Any = server.RequestHandlerClass

    class Handler(own):
        def _send(self, request: Any, code: int, body: bytes, **headers: str) -> None:
            super()._send(request, status if code == 307 else code, body, **headers)

    server.RequestHandlerClass = Handler  # type: ignore[assignment]
    server.switches.redirect = True
    agent = AGENT.replace("globals()[library]()", FAILING)
    plain = run_agent(agent, library, server.url, "", "", "", capture=False)
    paths = [(request.method, request.path) for request in server.requests]
    server.requests.clear()
    run = run_agent(agent, library, server.url, "", "", "")
    assert run.result == plain.result
    assert [(request.method, request.path) for request in server.requests if "/models" not in request.path] == paths
    answered = [call for call in server.calls if call.choices]
    assert [span.trainable for span in run.spans if span.status == "ok"] == [True] * len(answered)
    assert len(answered) in ((0,) if status == 303 else (0, 2))  # urllib3 keeps the POST of a 301


def test_http2_is_captured_stream_by_stream(run_agent: RunAgent, tmp_path: Path) -> None:
    """Two calls at once on one HTTP/2 connection, whole and streamed, against a server that speaks nothing else."""
    from http2_server import Http2Server

    path, context = private_ca(tmp_path)
    server = Http2Server(context)
    agent = """
    import asyncio, httpx, json, ssl, sys
    async def main():
        context = ssl.create_default_context(cafile=sys.argv[2])
        async with httpx.AsyncClient(http2=True, verify=context) as client:
            def post(stream):
                body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
                return client.post(sys.argv[1] + "/v1/chat/completions", json=body)
            replies = await asyncio.gather(post(False), post(True), post(False))
            print(json.dumps([(reply.http_version, reply.text) for reply in replies]))
    asyncio.run(main())
    """
    try:
        plain = run_agent(agent, server.url, str(path), capture=False)
        run = run_agent(agent, server.url, str(path))
        assert run.result == plain.result
        assert {version for version, _ in run.result} == {"HTTP/2"}
        assert [span.trainable for span in run.spans] == [True] * 3, [span.reason for span in run.spans]
        assert [list(span.completion_ids or ()) for span in run.spans] == [[7, 8, 9]] * 3
    finally:
        server.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_server_that_cannot_be_asked_is_asked_once_and_said(
    run_agent: RunAgent, server: FakeServer, library: str
) -> None:
    """It hangs up on GET /models: the two calls go out as they are, and both records say why they have no ids."""
    server.is_deaf = True
    run = run_agent(AGENT, library, server.url, "", "", "")
    assert [status for status, *_ in run.result] == [200, 200]
    questions = [request for request in server.requests if request.method == "GET"]
    assert 1 <= len(questions) <= 2  # aiohttp tries again what it thinks was an idle connection
    assert all(call.json.keys() == {"model", "messages", "stream"} for call in server.calls)
    for span in run.spans:
        assert span.reason is not None and "could not be asked what it is" in span.reason
