"""Text completions over the OpenAI SDK: token-exact from any vLLM server, the agent's view unchanged."""

from __future__ import annotations

import json

from fake_server import FakeServer

AGENT = """
import json, sys
import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none")
SHAPES = {"plain": {}, "n": {"n": 2}, "logprobs": {"logprobs": 1}, "null": {"logprobs": None},
          "short": {"max_tokens": 3}, "cut": {"model": "smol+chunk_bytes=7"},
          "settings": {"temperature": 0.3, "seed": 5, "extra_body": {"top_k": 7}}}
view = {}
for name, shape in SHAPES.items():
    for stream in (False, True):
        reply = client.completions.create(**{"model": "smol", "prompt": "once upon", "stream": stream, **shape})
        view[f"{name} {stream}"] = [c.model_dump() for c in reply] if stream else reply.model_dump()
print(json.dumps(view))
"""


def test_any_vllm_server_gives_exact_tokens(captured, check_tokens, server: FakeServer) -> None:
    """Whole and streamed, n > 1, and where the agent sets `logprobs` to null."""
    spans = captured(AGENT, server.url)
    for span, call in zip(spans, server.calls, strict=True):
        check_tokens(span, call)
        assert span.messages == [{"role": "user", "content": "once upon"}]
    assert spans[-1].sampling == {"temperature": 0.3, "seed": 5, "top_k": 7}


def test_another_server_gets_the_agents_own_requests(captured, server: FakeServer) -> None:
    """Not one field is added, and the record says why it has no ids."""
    server.owned_by = "someone"
    spans = captured(AGENT, server.url)
    assert all("return_token_ids" not in call.json for call in server.calls)
    assert {span.reason for span in spans} == {f"no token ids: 127.0.0.1:{server.server_port} is no vLLM server"}


def test_several_prompts_in_one_call_are_no_training_example() -> None:
    """The record has all texts, and the reason; two times the same prompt is one prompt."""
    from agentlight_instrumentation.dialects.openai_completions import Reader

    def reply(*prompts: list[int]) -> bytes:
        choices = [
            {"index": n, "text": "x", "prompt_token_ids": ids, "token_ids": [1]} for n, ids in enumerate(prompts)
        ]
        return json.dumps({"choices": choices}).encode()

    reader = Reader()
    reader.add(reply([1, 2], [1, 2]))
    assert list(reader.prompt_ids or ()) == [1, 2]
    reader.add(reply([1, 2], [3]))
    assert (reader.prompt_ids, reader.why_no_ids) == (None, "2 prompts in one call")
    assert [choice.text for choice in reader.choices()] == ["xx", "xx"]


def test_an_echoing_call_is_left_alone() -> None:
    """Its ids and log-probs would mix prompt and completion."""
    from agentlight_instrumentation.dialects.openai_completions import additions

    assert additions({"prompt": "x", "echo": True}) == {}
    assert additions({"prompt": "x", "echo": False}) == {"return_token_ids": True, "logprobs": 0}
