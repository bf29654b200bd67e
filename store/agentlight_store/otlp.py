"""Rollouts as OpenTelemetry spans with the names of the GenAI conventions, sent to a collector over OTLP/HTTP.

A rollout is a trace of that id with one root span; a call made inside a trace of the agent's own belongs to that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from agentlight_store.errors import AgentlightError
from agentlight_store.rollout import Event, Rollout
from agentlight_store.span import Span

BATCH = 256  # spans a request
DEFAULT_ENDPOINT = "http://localhost:4318"
# The request settings that the conventions name.
REQUEST = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_tokens": "max_tokens", "seed": "seed",
    "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
}  # fmt: skip
PROVIDERS = {"anthropic_messages": "anthropic", "gemini": "gcp.gemini", "ollama": "ollama"}


class ExportError(AgentlightError):
    """The collector does not take the spans, or what is needed to send them is not installed."""


def traces_url(endpoint: str | None) -> str:
    """The endpoint, else $OTEL_EXPORTER_OTLP_ENDPOINT, else this machine's; with the path /v1/traces if it has none."""
    url = endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT_ENDPOINT
    if urlsplit(url).scheme not in ("http", "https"):
        raise ExportError(f"{url!r} is no URL of a collector; give one like {DEFAULT_ENDPOINT}")
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + "/v1/traces"


def export(rollouts: Iterable[Rollout], endpoint: str) -> Iterator[int]:
    """Send them; yields the number of spans sent so far after each batch. Raises ExportError."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError:
        raise ExportError("export needs `pip install 'agentlight[otlp]'`") from None
    exporter = OTLPSpanExporter(endpoint=endpoint)  # which tries again after a 429 or 503
    sent, batch = 0, []

    def send() -> None:
        if exporter.export(batch) is not SpanExportResult.SUCCESS:
            raise ExportError(f"{endpoint} did not take {len(batch)} spans; {sent} were sent before")

    for rollout in rollouts:
        batch += spans_of(rollout)
        if len(batch) >= BATCH:
            send()
            sent, batch = sent + len(batch), []
            yield sent
    if batch:
        send()
        yield sent + len(batch)


def spans_of(rollout: Rollout) -> list[Any]:
    """The root span, one a call, one a tool; observations are events of the root."""
    root = rollout.rollout_id + "-" + rollout.rollout_id[16:]
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "agentlight.rollout.status": rollout.status,
        "agentlight.task.id": rollout.task_id,
        "agentlight.reward": rollout.reward,
        **{f"agentlight.reward.{name}": value for name, value in rollout.rewards.items()},
    }
    ended_at = rollout.ended_at or max([rollout.started_at, *(span.ended_at for span in rollout.spans)])
    events = [one for one in rollout.events if one.kind != "tool"]
    spans = [_span(root, None, "invoke_agent", attributes, rollout.started_at, ended_at, events=events)]
    spans += [_call(span, root) for span in rollout.spans]
    return spans + [_tool(event, root, number) for number, event in enumerate(rollout.events) if event.kind == "tool"]


def _call(span: Span, root: str) -> Any:
    host, _, port = span.server.rpartition(":")
    operation = "text_completion" if span.dialect == "openai_completions" else "chat"
    output = [
        {"role": "assistant", "finish_reason": choice.finish_reason, "parts": _parts(choice)} for choice in span.choices
    ]
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDERS.get(span.dialect, "openai"),
        "gen_ai.request.model": span.model,
        "gen_ai.response.model": span.policy_version or span.model,
        "gen_ai.agent.name": span.role,
        "gen_ai.usage.input_tokens": span.prompt_tokens,
        "gen_ai.usage.output_tokens": span.completion_tokens,
        "gen_ai.response.finish_reasons": [str(choice.finish_reason) for choice in span.choices],
        "gen_ai.input.messages": _json(span.messages),
        "gen_ai.output.messages": _json(output),
        "server.address": host or span.server,
        "server.port": int(port) if port.isdecimal() else None,
        "http.response.status_code": span.http_status,
        "error.type": span.error,
        "agentlight.trainable": span.trainable,
        "agentlight.not_trainable_because": span.reason,
        **{f"gen_ai.request.{theirs}": span.sampling.get(ours) for ours, theirs in REQUEST.items()},
    }
    parent = span.trace or root
    trace = f"{parent.partition('-')[0]}-{span.span_id}"
    name = f"{operation} {span.model}"
    return _span(trace, parent, name, attributes, span.started_at, span.ended_at, kind="CLIENT", error=span.error)


def _parts(choice: Any) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [] if choice.text is None else [{"type": "text", "content": choice.text}]
    for call in choice.tool_calls or ():
        function = call.get("function") or {}
        called = {"id": call.get("id"), "name": function.get("name"), "arguments": function.get("arguments")}
        parts.append({"type": "tool_call", **called})
    return parts


def _tool(event: Event, root: str, number: int) -> Any:
    content = event.content if isinstance(event.content, dict) else {}
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.name,
        "gen_ai.agent.name": event.role,
        "gen_ai.tool.call.arguments": _json(content.get("arguments")),
        "gen_ai.tool.call.result": _json(content.get("result")),
        "error.type": content.get("error"),
    }
    # A tool's event has no id of its own: its place in the rollout makes one that is the same in each export.
    trace = f"{root.partition('-')[0]}-{(int(root[-16:], 16) + number + 1) % 2**64 or 1:016x}"
    name, error = f"execute_tool {event.name}", content.get("error")
    return _span(trace, root, name, attributes, event.started_at, event.ended_at, error=error)


def _span(
    trace: str, parent: str | None, name: str, attributes: dict[str, Any], started_at: float, ended_at: float, *,
    kind: str = "INTERNAL", error: str | None = None, events: Iterable[Event] = (),
) -> Any:  # fmt: skip
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event as SpanEvent
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanKind, Status, StatusCode

    told = [
        SpanEvent("agentlight.observation", {"role": one.role, "content": _json(one.content)}, _ns(one.started_at))
        for one in events
    ]
    return ReadableSpan(
        name=name,
        context=_context(trace),
        parent=None if parent is None else _context(parent),
        resource=Resource({"service.name": "agentlight"}),
        attributes={key: value for key, value in attributes.items() if value is not None},
        events=told,
        kind=SpanKind[kind],
        status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.UNSET),
        start_time=_ns(started_at),
        end_time=_ns(ended_at),
    )


def _context(trace: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    trace_id, _, span_id = trace.partition("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
