"""Servers that fail, refuse, redirect or talk nonsense: the agent sees what it would have seen, and it is recorded."""

from __future__ import annotations

import pytest
from conftest import RunAgent
from fake_server import FakeServer

ASK = """
import json, sys
import httpx, requests
def ask(model, library=httpx, **more):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}
    return library.post(sys.argv[1] + "/chat/completions", json=body)
"""


def test_error_replies_are_recorded_with_their_message(run_agent: RunAgent, server: FakeServer) -> None:
    """400, 429 and 500 over three libraries: the status and text reach the agent, one record each."""
    agent = (
        ASK
        + """
seen = [[(r.status_code, r.json()) for r in [ask(f"smol+status={status}", library)]][0]
        for status in (400, 429, 500) for library in (httpx, requests)]
import openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)
try:
    client.chat.completions.create(model="smol+status=400", messages=[])
except openai.BadRequestError as error:
    seen.append(error.body)
print(json.dumps(seen))
"""
    )
    plain = run_agent(agent, server.url, capture=False)
    server.requests.clear()
    run = run_agent(agent, server.url)
    assert run.result == plain.result
    assert (
        [span.http_status for span in run.spans]
        == [400, 400, 429, 429, 500, 500, 400]
        == [call.status for call in server.calls]
    )
    for span in run.spans:
        assert (span.status, span.trainable, span.choices) == ("error", False, [])
        assert f"status {span.http_status} was asked for" in (span.error or "")
        assert span.reason == f"the call failed: {span.error}"


def test_each_attempt_of_a_retrying_sdk_is_a_record(run_agent: RunAgent, server: FakeServer) -> None:
    """429, 500, then 200: three requests, three records, one trainable."""
    server.failures = [429, 500]
    agent = (
        ASK
        + """
import openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="x", max_retries=2)
print(len(client.chat.completions.create(model="smol", messages=[]).choices))
"""
    )
    run = run_agent(agent, server.url)
    assert run.result == 1
    assert [(span.status, span.http_status, span.trainable) for span in run.spans] == [
        ("error", 429, False), ("error", 500, False), ("ok", 200, True),
    ]  # fmt: skip


@pytest.mark.parametrize("library", ["httpx", "requests"])
def test_a_strict_server_is_asked_once_more_and_remembered(
    library: str, run_agent: RunAgent, server: FakeServer
) -> None:
    """It refuses our fields: the agent gets its answer, and no later request carries them."""
    server.switches.strict = True
    agent = ASK + f"print(json.dumps([ask('smol', {library}).status_code for _ in range(3)]))"
    run = run_agent(agent, server.url)
    assert run.result == [200, 200, 200]
    assert ["return_token_ids" in call.json for call in server.calls] == [True, False, False, False]
    assert [call.status for call in server.calls] == [422, 200, 200, 200]
    assert [(span.status, span.http_status, span.trainable) for span in run.spans] == [("ok", 200, False)] * 3


def test_a_refusal_that_has_another_cause_is_not_remembered(run_agent: RunAgent, server: FakeServer) -> None:
    """A 422 that lists our field beside the agent's own mistake leaves the server a vLLM server."""
    agent = ASK + "print(json.dumps([ask(m, **x).status_code for m, x in (('smol+strict', {'bad': 1}), ('smol', {}))]))"
    run = run_agent(agent, server.url)
    assert run.result == [422, 200]
    refused, answered = run.spans
    assert (refused.status, refused.http_status) == ("error", 422)
    assert answered.trainable, answered.reason


def test_a_redirected_call_is_one_record(run_agent: RunAgent, server: FakeServer) -> None:
    """307 to another path of the server: followed as ever, recorded once, with ids."""
    agent = (
        ASK
        + """
import openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="x")
stream = client.chat.completions.create(model="smol+redirect", messages=[], stream=True)
reply = requests.post(sys.argv[1] + "/chat/completions", json={"model": "smol+redirect", "messages": []})
print(json.dumps([len(list(stream)), [r.status_code for r in reply.history], reply.json()["choices"][0]["token_ids"]]))
"""
    )
    plain = run_agent(agent, server.url, capture=False)
    server.requests.clear()
    run = run_agent(agent, server.url)
    assert run.result == plain.result
    assert [call.status for call in server.calls] == [307, 200, 307, 200]
    assert [(span.status, span.trainable) for span in run.spans] == [("ok", True)] * 2


COUNTS = {
    "omit_ids=2": "7 completion ids but 9 log-probs",
    "omit_logprobs=1": "9 completion ids but 8 log-probs",
    "omit_ids=2+omit_logprobs=2": "usage says 9 output tokens, the reply has 7 ids",
    "logprob=null": None,
    "logprob=nan": None,
    "logprob=-9999": None,
}


def test_ids_that_do_not_add_up_are_not_trainable(run_agent: RunAgent, server: FakeServer) -> None:
    """Against the log-probs and against usage, streamed and whole; the reason has both numbers."""
    agent = (
        ASK
        + f"""
for case in {list(COUNTS)!r}:
    for stream in (False, True):
        assert ask("smol+" + case, stream=stream).status_code == 200
"""
    )
    spans = run_agent(agent, server.url).spans
    assert [span.reason for span in spans] == [reason for reason in COUNTS.values() for _ in range(2)]
    assert [span.trainable for span in spans] == [reason is None for reason in COUNTS.values() for _ in range(2)]
    for span in spans[-6:-2]:
        first, second = list(span.completion_logprobs or ())[:2]
        assert first != first and second == second  # NaN where the server gave null or NaN
    assert (spans[-1].completion_logprobs or [0])[0] == -9999


def test_replies_that_cannot_be_read_reach_the_agent_as_they_are(run_agent: RunAgent, server: FakeServer) -> None:
    """null choices, {}, HTML, broken JSON, a list, nothing: same bytes, one record, never trainable."""
    agent = (
        ASK
        + """
RAW = ("null_choices", "empty", "html", "broken", "list", "nothing")
seen = [[ask("smol+raw=" + raw, library, stream=stream).text for library in (httpx, requests)]
        for raw in RAW for stream in (False, True)]
import openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)
for raw in RAW:
    for stream in (False, True):
        try:
            reply = client.chat.completions.create(model="smol+raw=" + raw, messages=[], stream=stream)
            seen.append([c.model_dump() for c in reply] if stream else getattr(reply, "choices", repr(reply)))
        except Exception as error:
            seen.append(type(error).__name__)
print(json.dumps(seen))
"""
    )
    plain = run_agent(agent, server.url, capture=False)
    server.requests.clear()
    run = run_agent(agent, server.url)
    assert run.result == plain.result
    assert len(run.spans) == len(server.calls) == 36
    assert not any(span.trainable for span in run.spans)
    assert all(span.reason for span in run.spans)
    assert run.events("lost") == []


def test_a_reply_cut_off_fails_as_it_fails_without_us(run_agent: RunAgent, server: FakeServer) -> None:
    """Half of a whole reply, then a closed connection: the libraries' own errors, and one record each."""
    agent = (
        ASK
        + """
seen = []
for library, error in ((httpx, httpx.RemoteProtocolError), (requests, requests.RequestException)):
    try:
        ask("smol+drop_after=0", library)
    except error as error:
        seen.append([type(error).__name__, getattr(error.request, "method", None)])
print(json.dumps(seen))
"""
    )
    plain = run_agent(agent, server.url, capture=False)
    run = run_agent(agent, server.url)
    assert run.result == plain.result
    assert len(run.spans) == 2
    assert [(span.status, span.trainable) for span in run.spans] == [("partial", False)] * 2


def test_a_server_that_is_down_is_an_error_record(run_agent: RunAgent, server: FakeServer) -> None:
    """The agent gets its library's connection error; the record says that there was no answer."""
    agent = (
        ASK
        + """
for library in (httpx, requests):
    try:
        ask("smol", library)
    except (httpx.ConnectError, requests.ConnectionError) as error:
        print(type(error).__name__)
"""
    )
    run = run_agent(agent, "http://127.0.0.1:1/v1")
    assert run.stdout.split() == ["ConnectError", "ConnectionError"]
    assert [(span.status, span.error, span.http_status) for span in run.spans] == [
        ("error", "ConnectError", None), ("error", "MaxRetryError", None),
    ]  # fmt: skip


def test_an_unwritable_store_costs_the_record_and_not_the_call(
    run_agent: RunAgent, server: FakeServer, tmp_path
) -> None:
    """A store below a regular file: same output, nothing on stderr, one "lost" event for each call."""
    (tmp_path / "file").write_text("")
    agent = ASK + "print(json.dumps([ask('smol').json(), ask('smol', stream=True).text, ask('smol', requests).text]))"
    plain = run_agent(agent, server.url, capture=False)
    run = run_agent(agent, server.url, strict=False, store=tmp_path / "file" / "store")
    assert (run.stdout, run.stderr) == (plain.stdout, plain.stderr)
    lost = [event["reason"] for event in run.events("lost")]
    assert len(lost) == 3 and all("cannot create the store" in reason for reason in lost)


def test_the_agents_seeded_random_numbers_are_its_own(run_agent: RunAgent, server: FakeServer) -> None:
    """Two agents with one seed draw the same numbers as without capture, and get different ids."""
    agent = (
        ASK
        + """
import random
random.seed(0)
ask("smol")
print(json.dumps(random.random()))
"""
    )
    plain = run_agent(agent, server.url, capture=False)
    runs = [run_agent(agent, server.url) for _ in range(2)]
    assert {run.result for run in runs} == {plain.result}
    assert len({span.span_id for span in runs[-1].spans}) == len(runs[-1].rollouts) == 2
