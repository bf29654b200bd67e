"""What the tests of all dialects do: the agent with and without capture, and its records against the server's truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fake_server import FakeServer

from agentlight_store import Span

Captured = Callable[..., list[Span]]


@pytest.fixture
def captured(run_agent: Any, server: FakeServer) -> Captured:
    """Runs the agent bare and captured; its output must be the same, and each request one record, in order."""

    def run(agent: str, *arguments: str) -> list[Span]:
        plain = run_agent(agent, *arguments, capture=False)
        server.requests.clear()
        observed = run_agent(agent, *arguments)
        for name, expected in plain.result.items():
            assert observed.result[name] == expected, name
        assert (observed.stderr, observed.events("lost")) == (plain.stderr, [])
        spans = observed.spans
        assert len(spans) == len(server.calls) > 0
        for span, call in zip(spans, server.calls, strict=True):
            check_reply(span, call)
        return spans

    return run


def check_reply(span: Span, call: Any) -> None:
    """Texts, tool calls, finish reasons and usage are what the server sampled."""
    assert (span.http_status, span.status) == (200, "ok")
    assert not span.usage or span.usage == {
        "input_tokens": len(call.prompt_ids), "output_tokens": sum(len(one.ids) for one in call.choices)
    }  # fmt: skip
    assert len(span.choices) == len(call.choices)
    for choice, sampled in zip(span.choices, call.choices, strict=True):
        assert (choice.text or None) == (sampled.message["content"] or None)
        assert choice.finish_reason == sampled.finish_reason
        called = [(one["function"]["name"], one["function"]["arguments"]) for one in choice.tool_calls or ()]
        said = [one["function"] for one in sampled.message.get("tool_calls") or ()]
        assert [name for name, _ in called] == [one["name"] for one in said]
        assert [json.loads(text) for _, text in called] == [json.loads(one["arguments"]) for one in said]


@pytest.fixture(name="check_tokens")
def _check_tokens() -> Callable[[Span, Any], None]:
    return check_tokens


def check_tokens(span: Span, call: Any) -> None:
    """Ids and log-probs of the prompt and of every choice are what the server sampled."""
    assert span.trainable, span.reason
    assert list(span.prompt_ids or ()) == call.prompt_ids
    for choice, sampled in zip(span.choices, call.choices, strict=True):
        assert list(choice.completion_ids or ()) == sampled.ids
        assert list(choice.completion_logprobs or ()) == sampled.logprobs
