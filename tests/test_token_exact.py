"""Chat, Responses and Messages on a real vLLM: one conversation has the same tokens in all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlight_run.policy import Policy
from agentlight_run.serving import serve
from agentlight_store import Span, Store

pytestmark = pytest.mark.slow
BIN = Path(sys.executable).parent
AGENT = '''
"""Asks the same in three dialects, whole and streamed; prints what the chat path itself told of its tokens."""
import json
import sys

import anthropic
import openai

URL, MODEL = sys.argv[1:]
client = openai.OpenAI(base_url=URL, api_key="none")
claude = anthropic.Anthropic(base_url=URL.removesuffix("/v1"), api_key="none")
SYSTEM, LIMIT = "You answer in one short sentence.", 90
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
          "additionalProperties": False}
TOOL = {"name": "weather", "description": "Weather of a city", "strict": True}
FIRST = [{"role": "user", "content": "Why is the sky blue?"}]
SECOND = [*FIRST, {"role": "assistant", "content": "Air scatters blue."}, {"role": "user", "content": "And red?"}]
told = []


def chat(messages, tools, stream):
    more = {"tools": [{"type": "function", "function": TOOL | {"parameters": SCHEMA}}], "tool_choice": "required"}
    reply = client.chat.completions.create(
        model=MODEL, messages=[{"role": "system", "content": SYSTEM}, *messages], stream=stream, temperature=0,
        max_tokens=LIMIT, logprobs=True, extra_body={"return_token_ids": True}, **more if tools else {})
    chunks = list(reply) if stream else [reply]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    ids = [one for choice in choices for one in getattr(choice, "token_ids", None) or ()]
    logprobs = [one.logprob for choice in choices if choice.logprobs for one in choice.logprobs.content]
    told.append([chunks[0].prompt_token_ids, ids, logprobs])


def responses(messages, tools, stream):
    more = {"tools": [{"type": "function", **TOOL, "parameters": SCHEMA}], "tool_choice": "required"}
    reply = client.responses.create(
        model=MODEL, instructions=SYSTEM, input=messages, stream=stream, temperature=0, max_output_tokens=LIMIT,
        **more if tools else {})
    assert not stream or list(reply)[-1].type == "response.completed"


def messages(messages, tools, stream):
    more = {"tools": [TOOL | {"input_schema": SCHEMA}], "tool_choice": {"type": "any"}}
    reply = claude.messages.create(
        model=MODEL, system=SYSTEM, messages=messages, stream=stream, max_tokens=LIMIT,
        extra_body={"temperature": 0}, **more if tools else {})
    assert not stream or list(reply)[-1].type == "message_stop"


for conversation, tools in ((FIRST, False), (SECOND, False), (FIRST, True)):
    for stream in (False, True):
        for ask in (chat, responses, messages):
            ask(conversation, tools, stream)
print(json.dumps(told))
'''
CHAIN = """
import sys
import openai

client, previous = openai.OpenAI(base_url=sys.argv[1], api_key="none"), None
for stream in (False, True, False):
    reply = client.responses.create(model=sys.argv[2], input="Say more.", previous_response_id=previous, stream=stream,
                                    max_output_tokens=12)
    previous = (list(reply)[-1].response if stream else reply).id
"""


@pytest.fixture(scope="module")
def policy(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Policy]:
    with serve(str(model), log=tmp_path_factory.mktemp("serve") / "serve.log") as policy:
        yield policy


def run(agent: str, policy: Policy, folder: Path, **variables: str) -> tuple[str, list[Span]]:
    (folder / "agent.py").write_text(agent)
    command = [BIN / "agentlight-run", "--store", "store", sys.executable, "agent.py", policy.url, policy.model]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (rollout,) = Store.open(folder / "store").rollouts()
    return done.stdout, rollout.spans


def test_every_dialect_gives_the_tokens_of_the_chat_path(policy, tmp_path):
    """Two plain conversations and one with a forced tool call, whole and streamed: 18 calls, and for each the prompt's
    ids, the sampled ids and the log-probs that vLLM itself told the chat client, to the last bit of a float32."""
    output, spans = run(AGENT, policy, tmp_path)
    told = json.loads(output)
    assert len(spans) == 3 * len(told) == 18
    for number, span in enumerate(spans):
        prompt_ids, ids, logprobs = told[number // 3]
        assert span.trainable, span.reason
        assert (list(span.prompt_ids or ()), list(span.completion_ids or ())) == (prompt_ids, ids)
        assert list(span.completion_logprobs or ()) == pytest.approx(logprobs, abs=1e-6)
        assert span.sampling["temperature"] == 0 and span.sampling["logprobs_mode"] == "processed"
    assert {span.finish_reason for span in spans[-6:]} == {"tool_calls"}


def test_a_chain_of_responses_extends_its_prompt(policy, tmp_path):
    """previous_response_id, whole and streamed: three trainable calls, each with the whole conversation."""
    _, spans = run(CHAIN, policy, tmp_path)
    assert [span.trainable for span in spans] == [True] * 3
    assert [len(span.messages) for span in spans] == [1, 3, 5]
    prompts = [len(span.prompt_ids or ()) for span in spans]
    assert prompts[0] < prompts[1] < prompts[2]


def test_a_vllm_server_without_our_middleware_says_what_it_cannot_tell(policy, tmp_path):
    """Taken for a server that somebody else started: chat is exact, Responses where it put out text alone, Messages
    nowhere; each call that is not has the reason, with both numbers where two disagree."""
    servers = json.dumps({origin: {**info, "tokens": False} for origin, info in policy.servers.items()})
    _, spans = run(AGENT, policy, tmp_path, AGENTLIGHT_SERVERS=servers)
    reasons = {(span.dialect, span.finish_reason): span.reason or "" for span in spans if not span.trainable}
    assert all(span.trainable for span in spans if span.dialect == "openai_chat")
    assert {span.trainable for span in spans if span.dialect == "anthropic_messages"} == {False}
    assert reasons["openai_responses", "tool_calls"] == "no log-probs in the reply"
    streamed = reasons["openai_responses", "stop"]  # vLLM sends no log-prob for the token that ends a stream
    assert streamed.endswith("log-probs") and "completion ids but" in streamed
