"""The Responses API over the OpenAI SDK: chains of responses, tools, streams; the agent's view unchanged."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fake_server import FakeServer

from agentlight_instrumentation.dialects.openai_responses import Reader, read_request

AGENT = """
import json, sys
import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none")
TOOLS = [{"type": "function", "name": name, "parameters": {}} for name in ("weather", "time")]
SHAPES = {"plain": {"instructions": "be brief"}, "tools": {"tools": TOOLS}, "short": {"max_output_tokens": 3},
          "include": {"include": ["message.output_text.logprobs"]}, "cut": {"model": "smol+chunk_bytes=7"},
          "settings": {"temperature": 0.3, "extra_body": {"top_k": 7}}}
view = {}

def dump(reply):
    return [event.to_dict() for event in reply] if isinstance(reply, openai.Stream) else reply.to_dict()

for name, shape in SHAPES.items():
    for stream in (False, True):
        reply = client.responses.create(**{"model": "smol", "input": "once upon", "stream": stream, **shape})
        view[f"{name} {stream}"] = dump(reply)
previous = None
for turn in range(4):
    said = [{"role": "user", "content": f"turn {turn}"}]
    stream = turn % 2 == 1
    seen = view[f"turn {turn}"] = dump(client.responses.create(
        model="smol", input=said, previous_response_id=previous, stream=stream))
    previous = seen[-1]["response"]["id"] if stream else seen["id"]
with client.responses.stream(model="smol", input="hi") as helper:
    view["helper"] = [event.type for event in helper], helper.get_final_response().to_dict()
print(json.dumps(view))
"""


def test_a_server_that_tells_gives_exact_tokens_of_every_reply(captured, check_tokens, server: FakeServer) -> None:
    """With tools as well as with text, whole and streamed; the effective settings are the server's."""
    server.tokens = True
    spans = captured(AGENT, server.url)
    for span, call in zip(spans, server.calls, strict=True):
        check_tokens(span, call)
        assert span.sampling["temperature"] == 0.25  # what the server says that it used
    assert not any("include" in call.json for call in server.calls[:2])


def test_any_other_vllm_server_gives_exact_tokens_of_whole_texts(captured, check_tokens, server: FakeServer) -> None:
    """vLLM tells log-probs of text alone: a reply with tool calls has ids and no log-probs, and says so."""
    spans = captured(AGENT, server.url)
    for span, call in zip(spans, server.calls, strict=True):
        assert list(span.prompt_ids or ()) == call.prompt_ids
        assert list(span.completion_ids or ()) == call.choices[0].ids
        if span.tool_calls:
            assert span.reason == "no log-probs in the reply"
        else:
            check_tokens(span, call)
    assert spans[-6].sampling == {"temperature": 0.3, "top_k": 7}


@pytest.mark.parametrize("tokens", [True, False])
def test_a_chain_of_responses_is_recorded_as_one_conversation(captured, server: FakeServer, tokens: bool) -> None:
    """Each turn names the response before it; its record has all messages, and its prompt extends the last one."""
    server.tokens = tokens
    turns = captured(AGENT, server.url)[-5:-1]
    assert [len(span.messages) for span in turns] == [1, 3, 5, 7]
    for earlier, later in pairwise(turns):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert later.messages[len(earlier.messages)]["content"][0]["text"] == earlier.text


def test_a_response_of_another_process_is_named(run_agent, server: FakeServer) -> None:
    """What was said before is not known here: its id stands in its place."""
    agent = """
    import httpx, sys
    body = {"model": "smol", "input": "go on", "previous_response_id": "resp_x"}
    print(httpx.post(sys.argv[1] + "/responses", json=body).status_code)
    """
    (span,) = run_agent(agent, server.url).spans
    assert span.messages == [{"type": "previous_response", "id": "resp_x"}, {"role": "user", "content": "go on"}]


def test_a_model_that_has_no_logprobs_answers_all_the_same(run_agent, server: FakeServer) -> None:
    """vLLM refuses them for some models, in words that do not name the field that asks: once more without."""
    agent = """
    import httpx, sys
    print(httpx.post(sys.argv[1] + "/responses", json={"model": "smol+no_logprobs", "input": "hi"}).status_code)
    """
    run = run_agent(agent, server.url)
    assert run.result == 200
    assert [call.status for call in server.calls] == [400, 200]
    (span,) = run.spans
    assert (span.status, span.trainable) == ("ok", False)


def test_no_more_than_16_mib_are_remembered() -> None:
    """Of 40 responses to inputs of 1 MB, the last 16; a continuation of an older one names it."""
    for number in range(40):
        reader = Reader(request={"model": "smol", "input": "x" * 1_000_000})
        reader.add(b'{"id":"r%d","object":"response","status":"completed","output":[]}' % number)
    known = [read_request({"model": "smol", "previous_response_id": f"r{number}"})["messages"] for number in range(40)]
    assert [len(str(messages)) > 1_000_000 for messages in known].count(True) == 16
    assert known[0] == [{"type": "previous_response", "id": "r0"}] and len(known[39][0]["content"]) == 1_000_000
