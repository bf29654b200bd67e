"""`agentlight-store export`: a collector gets what the store holds, under the names of the GenAI conventions."""

from __future__ import annotations

import gzip
import threading
from array import array
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentlight_store import Choice, Span, Store
from agentlight_store.cli import main

ROLLOUT = "0123456789abcdef" * 2
OWN_TRACE = f"{7:032x}-{9:016x}"


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP; `failures` are statuses for the next requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.failures: list[int] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: Collector  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        status = self.server.failures.pop(0) if self.server.failures else 200
        if status == 200:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.server.spans += scope.spans
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    choice = Choice(
        text="SELECT 1",
        finish_reason="stop",
        completion_ids=array("I", [5, 6]),
        completion_logprobs=array("f", [-0.5, -1.0]),
    )
    call = Span(
        role="writer", dialect="openai_chat", server="127.0.0.1:8000", model="smol", prompt_ids=array("I", [1, 2, 3]),
        messages=[{"role": "user", "content": "one?"}], choices=[choice], sampling={"temperature": 0.5},
        trainable=True, http_status=200, started_at=10.0, ended_at=11.0,
    )  # fmt: skip
    failed = Span(model="smol", status="error", error="HTTP 500", http_status=500, started_at=12.0, trace=OWN_TRACE)
    with Store.open(tmp_path / "store", create=True) as store:
        store.begin_rollout(ROLLOUT, task_id="t1", started_at=9.0)
        store.append(ROLLOUT, call)
        store.append(ROLLOUT, failed)
        content = {"arguments": {"query": "cats"}, "result": 3, "error": None}
        store.add_event(ROLLOUT, kind="tool", name="search", role="writer", content=content, started_at=11.5)
        store.add_event(ROLLOUT, kind="observation", name="", role="user", content="seen", started_at=11.6)
        store.add_reward(ROLLOUT, 0.75)
        store.end_rollout(ROLLOUT, status="ok", exit_code=0, ended_at=20.0)
    return tmp_path / "store"


def attributes(span: Any) -> dict[str, Any]:
    found = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [part.string_value for part in value.values] if kind == "array_value" else value
    return found


def test_a_rollout_is_a_trace(store: Path, collector: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    """One root, its calls and its tool below it; a call inside a trace of the agent's own stays there."""
    url = f"http://127.0.0.1:{collector.server_port}"
    assert main(["export", str(store), "--endpoint", url]) == 0
    assert f"4 spans (1 rollouts) sent to {url}/v1/traces" in capsys.readouterr().err
    root, call, failed, tool = collector.spans
    assert root.trace_id.hex() == call.trace_id.hex() == tool.trace_id.hex() == ROLLOUT
    assert root.parent_span_id == b"" and call.parent_span_id == tool.parent_span_id == root.span_id
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (9 * 10**9, 20 * 10**9)
    found = attributes(root)
    assert (found["agentlight.task.id"], found["agentlight.reward"]) == ("t1", 0.75)
    assert [event.name for event in root.events] == ["agentlight.observation"]
    assert f"{failed.trace_id.hex()}-{failed.parent_span_id.hex()}" == OWN_TRACE
    assert failed.status.code == 2 and attributes(failed)["error.type"] == "HTTP 500"
    assert (tool.name, attributes(tool)["gen_ai.tool.call.arguments"]) == ("execute_tool search", '{"query": "cats"}')


def test_a_call_has_the_conventions_names(store: Path, collector: Collector) -> None:
    main(["export", str(store), "--endpoint", f"http://127.0.0.1:{collector.server_port}/v1/traces"])
    call = collector.spans[1]
    found = attributes(call)
    assert call.name == "chat smol" and call.kind == 3  # client
    expected = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "smol",
        "gen_ai.agent.name": "writer", "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 2,
        "gen_ai.response.finish_reasons": ["stop"], "gen_ai.request.temperature": 0.5, "server.address": "127.0.0.1",
        "server.port": 8000, "http.response.status_code": 200, "agentlight.trainable": True,
        "gen_ai.input.messages": '[{"role": "user", "content": "one?"}]',
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert "SELECT 1" in found["gen_ai.output.messages"]


def test_a_collector_that_is_busy_is_asked_again(store: Path, collector: Collector) -> None:
    collector.failures = [503]
    assert main(["export", str(store), "--endpoint", f"http://127.0.0.1:{collector.server_port}"]) == 0
    assert len(collector.spans) == 4


def test_a_collector_that_refuses_is_an_error(store: Path, collector: Collector, capsys: Any) -> None:
    collector.failures = [400]
    assert main(["export", str(store), "--endpoint", f"http://127.0.0.1:{collector.server_port}"]) == 2
    assert "did not take 4 spans" in capsys.readouterr().err
    assert main(["export", str(store), "--endpoint", "localhost:1"]) == 2
    assert "is no URL of a collector" in capsys.readouterr().err
