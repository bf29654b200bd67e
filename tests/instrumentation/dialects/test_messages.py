"""Anthropic Messages over its SDK: text, tool use, thinking; exact tokens where the server tells them."""

from __future__ import annotations

import json

from fake_server import FakeServer

from agentlight_instrumentation.dialects.anthropic_messages import Reader

AGENT = """
import asyncio, json, sys
import anthropic

URL = sys.argv[1].removesuffix("/v1")
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("weather", "time")]
ASK = {"model": "smol", "max_tokens": 50, "messages": [{"role": "user", "content": "once upon"}]}
SHAPES = {"plain": {"system": "be brief"}, "tools": {"tools": TOOLS}, "short": {"max_tokens": 3},
          "cut": {"model": "smol+chunk_bytes=7"}, "settings": {"extra_body": {"temperature": 0.3, "top_k": 7}}}
view = {}
client = anthropic.Anthropic(base_url=URL, api_key="none")
for name, shape in SHAPES.items():
    view[name] = client.messages.create(**ASK | shape).to_dict()
    view[name + " stream"] = [event.to_dict() for event in client.messages.create(**ASK | shape, stream=True)]
with client.messages.stream(**ASK) as helper:
    view["helper"] = list(helper.text_stream), helper.get_final_message().to_dict()

async def asynchronous():
    async with anthropic.AsyncAnthropic(base_url=URL, api_key="none") as client:
        view["async"] = (await client.messages.create(**ASK)).to_dict()
        view["async stream"] = [event.to_dict() async for event in await client.messages.create(**ASK, stream=True)]

asyncio.run(asynchronous())
print(json.dumps(view))
"""


def test_a_server_that_tells_gives_exact_tokens(captured, check_tokens, server: FakeServer) -> None:
    """Whole and streamed, text and tool use."""
    server.tokens = True
    spans = captured(AGENT, server.url)
    for span, call in zip(spans, server.calls, strict=True):
        check_tokens(span, call)
    assert spans[0].messages[0] == {"role": "system", "content": "be brief"}


def test_any_other_vllm_server_gets_the_agents_own_requests(captured, server: FakeServer) -> None:
    """It has no field that makes it tell: nothing is added, and the record says what would help."""
    spans = captured(AGENT, server.url)
    assert {span.reason for span in spans} == {Reader.why_no_ids}
    assert all(set(call.json) <= {*ASKED, "system", "tools", "stream", "temperature", "top_k"} for call in server.calls)


ASKED = ("model", "max_tokens", "messages")


def test_thinking_is_no_text_and_cached_prompt_tokens_count() -> None:
    """A reply of Anthropic's own, whole and streamed: the same record."""
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "so"}]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4, "output_tokens": 9}
    message = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn", "usage": usage}
    whole = Reader()
    whole.add(json.dumps(message).encode())
    streamed = Reader()
    for event in [
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "so"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]:
        streamed.add(json.dumps(event).encode())
    assert whole.choices() == streamed.choices()
    assert (whole.choices()[0].text, whole.choices()[0].finish_reason) == ("so", "stop")
    assert whole.usage == streamed.usage == {"input_tokens": 27, "output_tokens": 9}
