"""Capture under plain `opentelemetry-instrument`, through our instrumentor's entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agentlight_store import Store

AGENT = """
import sys, httpx
body = {"model": "fake", "messages": [{"role": "user", "content": "hello"}]}
print(httpx.post(sys.argv[1] + "/chat/completions", json=body).status_code)
"""


def run(server, tmp_path: Path, agent: str = AGENT, **variables: str) -> subprocess.CompletedProcess:
    script = tmp_path / "agent.py"
    script.write_text(agent)
    launcher = Path(sys.executable).parent / "opentelemetry-instrument"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTLIGHT_")}
    environment |= {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    command = [str(launcher), sys.executable, str(script), server.url]
    return subprocess.run(
        command, env=environment | variables, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_entry_point_captures_when_a_store_is_named(server, tmp_path):
    """AGENTLIGHT_STORE given: one call made, one call recorded, with its ids."""
    done = run(server, tmp_path, AGENTLIGHT_STORE=str(tmp_path / "store"))
    assert done.stdout == "200\n", done.stderr
    (rollout,) = Store.open(tmp_path / "store").rollouts()
    assert [span.trainable for span in rollout.spans] == [True]


def test_being_installed_is_no_consent(server, tmp_path):
    """Without AGENTLIGHT_STORE the same command records nothing and asks the server nothing."""
    done = run(server, tmp_path)
    assert done.stdout == "200\n", done.stderr
    assert [request.path for request in server.requests] == ["/v1/chat/completions"]


def test_a_call_knows_the_trace_that_the_agent_is_in(server, tmp_path):
    """The agent's own span around its first call is recorded with it; its second call is in no span."""
    agent = f"""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
with trace.get_tracer("mine").start_as_current_span("work") as span:
    exec({AGENT!r})
print(f"{{span.get_span_context().trace_id:032x}}-{{span.get_span_context().span_id:016x}}")
exec({AGENT!r})
"""
    done = run(server, tmp_path, agent, AGENTLIGHT_STORE=str(tmp_path / "store"))
    _, trace, _ = done.stdout.splitlines()
    (rollout,) = Store.open(tmp_path / "store").rollouts()
    assert [span.trace for span in rollout.spans] == [trace, None]


def test_the_exporter_records_what_other_instrumentors_saw(server, tmp_path):
    """A span of the agent's own, and one within it, are events with their attributes and the trace of the call."""
    agent = f"""
from opentelemetry import trace
tracer = trace.get_tracer("mine")
with tracer.start_as_current_span("plan", attributes={{"step": 1, "tags": ["a", "b"]}}):
    with tracer.start_as_current_span("ask"):
        exec({AGENT!r})
"""
    store = str(tmp_path / "store")
    done = run(server, tmp_path, agent, AGENTLIGHT_STORE=store, OTEL_TRACES_EXPORTER="agentlight")
    assert done.stdout == "200\n", done.stderr
    (rollout,) = Store.open(store).rollouts()
    events = {event.name: event for event in rollout.events if event.name in ("plan", "ask")}
    plan, ask = events["plan"], events["ask"]
    assert (plan.kind, plan.content["attributes"]) == ("span", {"step": 1, "tags": ["a", "b"]})
    assert ask.content["parent"] == plan.content["trace"].split("-")[1]
    assert [span.trace for span in rollout.spans] == [ask.content["trace"]]
    assert plan.started_at <= ask.started_at <= ask.ended_at <= plan.ended_at
