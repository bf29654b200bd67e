"""Replies that no reader understands: the agent's bytes as they came, one record that says so and keeps them."""

from __future__ import annotations

import json

import pytest
from fake_model import UNREADABLE
from fake_server import FakeServer

from agentlight_instrumentation.dialects.openai_chat import Reader
from agentlight_instrumentation.exchange import KEPT
from agentlight_store.views import span_line

AGENT = """
import json, sys
import httpx

CALLS = {"/chat/completions": {"messages": []}, "/completions": {"prompt": "x"}, "/responses": {"input": "x"},
         "/messages": {"max_tokens": 9, "messages": []}}
view = {}
for path, body in CALLS.items():
    for raw in json.loads(sys.argv[2]):
        view[path + raw] = httpx.post(sys.argv[1] + path, json=body | {"model": "smol+raw=" + raw}).text
print(json.dumps(view))
"""


@pytest.mark.parametrize("tokens", [True, False])
def test_what_cannot_be_understood_is_kept_as_it_came(run_agent, server: FakeServer, tokens: bool) -> None:
    """HTML, half a JSON, a list, an object of another kind: in every format, with and without added fields."""
    server.tokens = tokens
    kinds = [kind for kind in UNREADABLE if kind != "nothing"]
    plain = run_agent(AGENT, server.url, json.dumps(kinds), capture=False)
    server.requests.clear()
    run = run_agent(AGENT, server.url, json.dumps(kinds))
    assert run.result == plain.result
    assert len(run.spans) == len(server.calls) == 4 * len(kinds)
    for number, span in enumerate(run.spans):
        assert (span.status, span.trainable, span.raw) == ("ok", False, UNREADABLE[kinds[number % len(kinds)]])
        assert span.reason in ("the reply has no choices",) or span.reason.startswith("the reply could not be read")
    assert span_line(run.spans[0], None)["raw"] == UNREADABLE[kinds[0]].decode()


def test_no_more_than_64_kib_are_kept(run_agent, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a reply of 200 kB, the beginning."""
    monkeypatch.setitem(UNREADABLE, "html", b"<p>" * 66_666)
    (span,) = run_agent(AGENT.replace("CALLS.items()", "list(CALLS.items())[:1]"), server.url, '["html"]').spans
    assert span.raw == UNREADABLE["html"][:KEPT]


def test_literals_that_json_does_not_know_are_read_and_passed_on() -> None:
    """NaN and Infinity as Python writes them: added fields go, all else stays byte for byte, text included."""
    logprobs = {"content": [{"logprob": float("nan")}, {"logprob": float("-inf")}, {"logprob": -0.5}]}
    choice = {"index": 0, "message": {"content": 'NaN "Infinity"'}, "logprobs": logprobs, "token_ids": [1, 2, 3]}
    reply = {"choices": [choice], "prompt_token_ids": [4], "metrics": float("nan")}
    reader = Reader(frozenset(["return_token_ids", "logprobs"]))
    hidden = {**reply, "choices": [choice | {"logprobs": None, "token_ids": None}], "prompt_token_ids": None}
    assert reader.add(json.dumps(reply).encode()) == json.dumps(hidden).encode()
    (read,) = reader.choices()
    assert read.text == 'NaN "Infinity"' and list(read.completion_ids or ()) == [1, 2, 3]
    first, second, third = list(read.completion_logprobs or ())
    assert first != first and second != second and third == -0.5
