"""--max-step-timeout and --retry-strategy: a server that does not answer in time."""

from __future__ import annotations

import pytest
from conftest import RunAgent
from fake_server import FakeServer

LIBRARIES = ("httpx", "httpx_async", "requests", "urllib3", "aiohttp", "http_client")
AGENT = """
import asyncio, json, sys
library, url = sys.argv[1], sys.argv[2] + "/chat/completions"
body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}]}
HEADERS = {"Content-Type": "application/json", **({"x-stainless-retry-count": "0"} if len(sys.argv) > 3 else {})}

def httpx():
    import httpx
    return httpx.post(url, json=body, headers=HEADERS, timeout=20).status_code

def httpx_async():
    import httpx
    async def main():
        async with httpx.AsyncClient(timeout=None) as client:
            return (await client.post(url, json=body, headers=HEADERS)).status_code
    return asyncio.run(main())

def requests():
    import requests
    return requests.post(url, json=body, headers=HEADERS, timeout=20).status_code

def urllib3():
    import urllib3
    reply = urllib3.PoolManager().request("POST", url, body=json.dumps(body), headers=HEADERS, retries=False)
    return reply.status

def aiohttp():
    import aiohttp
    async def main():
        async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=HEADERS) as reply:
            await reply.read()
            return reply.status
    return asyncio.run(main())

def http_client():
    import http.client
    from urllib.parse import urlsplit
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("POST", urlsplit(url).path, json.dumps(body), HEADERS)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.status

try:
    print(json.dumps(globals()[library]()))
except Exception as error:
    print(json.dumps(type(error).__name__))
"""
LIMIT = {"AGENTLIGHT_STEP_TIMEOUT": "0.5"}
AGAIN = LIMIT | {"AGENTLIGHT_RETRY_STRATEGY": "exponential_backoff"}
TIMEOUTS = {
    "httpx": "ReadTimeout", "httpx_async": "ReadTimeout", "requests": "ReadTimeout", "urllib3": "ReadTimeoutError",
    "aiohttp": "SocketTimeoutError", "http_client": "TimeoutError",
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_call_ends_with_its_library_s_own_timeout(run_agent: RunAgent, server: FakeServer, library: str) -> None:
    """The server takes 3 s for a reply, the limit is 0.5 s; the record is an error that counts as a timeout."""
    server.delays = [3.0]
    run = run_agent(AGENT, library, server.url, env=LIMIT)
    assert run.result == TIMEOUTS[library]
    assert [(span.status, span.timed_out) for span in run.spans] == [("error", True)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_call_that_timed_out_is_made_again(run_agent: RunAgent, server: FakeServer, library: str) -> None:
    """The second try is answered: the agent sees a reply, the store two exchanges."""
    server.delays = [3.0]
    run = run_agent(AGENT, library, server.url, env=AGAIN)
    assert run.result == 200
    assert [(span.status, span.trainable) for span in run.spans] == [("error", False), ("ok", True)]


@pytest.mark.parametrize("library", ["httpx", "aiohttp", "http_client"])
def test_nothing_is_tried_again_on_top_of_an_sdk_that_does(
    run_agent: RunAgent, server: FakeServer, library: str
) -> None:
    """OpenAI's and Anthropic's SDKs say in a header that they count their tries."""
    server.delays = [3.0]
    run = run_agent(AGENT, library, server.url, "sdk", env=AGAIN)
    assert run.result == TIMEOUTS[library]
    assert len(server.calls) == 1


def test_after_three_tries_the_timeout_is_the_agent_s(run_agent: RunAgent, server: FakeServer) -> None:
    server.delays = [3.0] * 4
    run = run_agent(AGENT, "httpx", server.url, env=AGAIN)
    assert run.result == "ReadTimeout"
    assert [span.status for span in run.spans] == ["error"] * 3
