"""`--traces_exporter agentlight` of `opentelemetry-instrument`: what other instrumentors saw, beside the calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agentlight_instrumentation import settings
from agentlight_instrumentation.context import current_role, current_rollout
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.sink import store

NANOSECONDS = 1e-9


class AgentlightSpanExporter(SpanExporter):
    """Each span is an event of the process's rollout, of kind "span"; LLM calls in it are recorded on their own.

    Spans are exported from a thread of OpenTelemetry's, so no rollout that is only a part of the process is known
    here: `trace`, which calls have as well, tells what belongs together.
    """

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if settings.get(settings.STORE) is None:
            return SpanExportResult.SUCCESS
        with Guarded("record OpenTelemetry spans") as guard:
            for span in spans:
                context, started_at = span.get_span_context(), (span.start_time or 0) * NANOSECONDS
                store().add_event(
                    current_rollout(), kind="span", name=span.name, role=current_role(), started_at=started_at,
                    ended_at=(span.end_time or 0) * NANOSECONDS or started_at,
                    content={
                        "trace": None if context is None else f"{context.trace_id:032x}-{context.span_id:016x}",
                        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
                        "status": span.status.status_code.name, "attributes": _plain(span.attributes or {}),
                    },
                )  # fmt: skip
        return SpanExportResult.FAILURE if guard.failed else SpanExportResult.SUCCESS


def _plain(attributes: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}
