"""Ollama's /api/chat and /api/generate over its Python client: lines of JSON, and whole."""

from __future__ import annotations

from fake_server import FakeServer

AGENT = """
import json, sys
import ollama

client = ollama.Client(host=sys.argv[1].removesuffix("/v1"))
ASK = [{"role": "user", "content": "once upon"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("weather", "time")]
SHAPES = {"plain": {}, "tools": {"tools": TOOLS}, "cut": {"model": "smol+chunk_bytes=7"},
          "settings": {"options": {"temperature": 0.3, "num_predict": 3, "repeat_penalty": 1.1}}}
view = {}
for name, shape in SHAPES.items():
    view[name] = client.chat(**{"model": "smol", "messages": ASK, **shape}).model_dump()
    stream = client.chat(**{"model": "smol", "messages": ASK, **shape}, stream=True)
    view[name + " stream"] = [chunk.model_dump() for chunk in stream]
view["generate"] = client.generate("smol", "once upon", system="be brief").model_dump()
view["generate stream"] = [chunk.model_dump() for chunk in client.generate("smol", "once upon", stream=True)]
print(json.dumps(view))
"""


def test_calls_are_recorded_and_left_as_they_are(captured, server: FakeServer) -> None:
    """Options under the names that all dialects share; the server is not asked what it is."""
    spans = captured(AGENT, server.url)
    assert {request.method for request in server.requests} == {"POST"}
    assert spans[6].sampling == {"temperature": 0.3, "max_tokens": 3, "repetition_penalty": 1.1}
    assert spans[-2].messages == [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "once upon"}
    ]  # fmt: skip
