"""Google generateContent over plain HTTP: whole, as events, and as one growing JSON array."""

from __future__ import annotations

from fake_server import FakeServer

AGENT = """
import json, sys
import httpx, requests

BASE = sys.argv[1].removesuffix("/v1") + "/v1beta/models/smol"
ASK = {"contents": [{"role": "user", "parts": [{"text": "once upon"}]}]}
TOOLS = [{"functionDeclarations": [{"name": "weather"}, {"name": "time"}]}]
SHAPES = {"plain": {"systemInstruction": {"parts": [{"text": "be brief"}]}}, "tools": {"tools": TOOLS},
          "settings": {"generationConfig": {"temperature": 0.3, "topK": 7, "maxOutputTokens": 3, "candidateCount": 2}}}
view = {}
for name, shape in SHAPES.items():
    for way in (":generateContent", ":streamGenerateContent", ":streamGenerateContent?alt=sse"):
        for library in (httpx, requests):
            view[f"{name} {way} {library.__name__}"] = library.post(BASE + way, json=ASK | shape).text
print(json.dumps(view))
"""


def test_calls_are_recorded_and_left_as_they_are(captured, server: FakeServer) -> None:
    """The model stands in the path; the server is not even asked what it is."""
    spans = captured(AGENT, server.url)
    assert {request.method for request in server.requests} == {"POST"}
    assert {span.model for span in spans} == {"smol"}
    assert spans[0].messages == [
        {"role": "system", "content": {"parts": [{"text": "be brief"}]}},
        {"role": "user", "parts": [{"text": "once upon"}]},
    ]
    assert spans[-1].sampling == {"temperature": 0.3, "top_k": 7, "max_tokens": 3, "n": 2}
    assert {span.reason for span in spans} == {f"no token ids: 127.0.0.1:{server.server_port} is no vLLM server"}


def test_an_array_that_breaks_off_is_partial(run_agent, server: FakeServer) -> None:
    """Two of its elements arrive, and half of a string: what was said until then is recorded."""
    agent = """
    import httpx, sys
    url = sys.argv[1].removesuffix("/v1") + "/v1beta/models/smol+chunk_bytes=400+drop_after=1:streamGenerateContent"
    try:
        httpx.post(url, json={"contents": [{"parts": [{"text": "x"}]}]})
    except httpx.RemoteProtocolError:
        pass
    """
    (span,) = run_agent(agent, server.url).spans
    sampled = server.calls[0].choices[0].tokens
    assert span.status == "partial"
    assert span.text and "".join(sampled).startswith(span.text)


def test_a_call_that_no_policy_server_speaks_is_not_rerouted(run_agent, server: FakeServer) -> None:
    """It goes where the agent sends it, with its key, and the record says so; other calls go to the policy."""
    policy = FakeServer()
    agent = """
    import httpx, sys
    base = sys.argv[1].removesuffix("/v1")
    key = {"x-goog-api-key": "secret"}
    httpx.post(base + "/v1beta/models/smol:generateContent", headers=key, json={"contents": [{"parts": []}]})
    httpx.post(base + "/api/chat", json={"model": "smol", "messages": [], "stream": False})
    key, ask = {"x-api-key": "secret"}, {"model": "smol", "max_tokens": 5, "messages": []}
    httpx.post(base + "/v1/messages", headers=key, json=ask)
    """
    spans = run_agent(agent, server.url, env={"AGENTLIGHT_POLICY": policy.url}).spans
    policy.close()
    assert [call.path for call in server.calls] == ["/v1beta/models/smol:generateContent", "/api/chat"]
    assert server.calls[0].headers["x-goog-api-key"] == "secret"
    (moved,) = policy.calls
    assert moved.path == "/v1/messages" and "x-api-key" not in moved.headers
    assert [span.reason for span in spans[:2]] == [
        f"not rerouted: a policy server does not speak {name}, the call went to the agent's own server"
        for name in ("gemini", "ollama")
    ]
