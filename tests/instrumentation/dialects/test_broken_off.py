"""Streams of every dialect that break off or are left: one record, with what was said until then."""

from __future__ import annotations

import pytest
from fake_server import FakeServer

AGENT = """
import json, sys
import httpx

url, path, way = sys.argv[1].removesuffix("/v1"), sys.argv[2], sys.argv[3]
MODEL = "smol+words=30" + ("+drop_after=12" if way == "dropped" else "")
ASK = [{"role": "user", "content": "hi"}]
BODIES = {"/v1/completions": {"prompt": "hi"}, "/v1/responses": {"input": "hi"}, "/api/generate": {"prompt": "hi"},
          "/v1/messages": {"max_tokens": 50, "messages": ASK}}
body = {"contents": [{"parts": [{"text": "hi"}]}]}
if ":" not in path:
    body = {"model": MODEL, "stream": True, **BODIES.get(path, {"messages": ASK})}
seen, failure = b"", None
try:
    with httpx.stream("POST", url + path.replace("MODEL", MODEL), json=body) as reply:
        for number, chunk in enumerate(reply.iter_raw()):
            seen += chunk
            if way == "left" and number == 12:
                break
except httpx.RemoteProtocolError as error:
    failure = type(error).__name__
print(json.dumps([seen.decode(), failure]))
"""
PATHS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/api/chat", "/api/generate",
    "/v1beta/models/MODEL:streamGenerateContent", "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("tokens", [True, False])
def test_a_stream_that_breaks_off_is_partial(path: str, tokens: bool, run_agent, server: FakeServer) -> None:
    """The agent sees the same bytes and the same error; the record has the beginning of the text, and the reason."""
    server.tokens = tokens
    plain = run_agent(AGENT, server.url, path, "dropped", capture=False)
    run = run_agent(AGENT, server.url, path, "dropped")
    assert run.result[1] == plain.result[1] == "RemoteProtocolError"
    assert run.result[0] == plain.result[0] or "completions" in path  # one more event, with ids, is among the twelve
    (span,) = run.spans
    sampled = "".join(server.calls[-1].choices[0].tokens)
    assert (span.status, span.reason) == ("partial", "the reply was not received to its end")
    assert span.text and sampled.startswith(span.text) and span.text != sampled


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_that_the_agent_leaves_is_partial(path: str, run_agent, server: FakeServer) -> None:
    """After thirteen pieces it has enough."""
    (span,) = run_agent(AGENT, server.url, path, "left").spans
    sampled = "".join(server.calls[-1].choices[0].tokens)
    assert span.status == "partial" and span.text and sampled.startswith(span.text)
