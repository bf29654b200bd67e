"""Which rollout and which role the running code belongs to; context variables, so that tasks keep theirs."""

from __future__ import annotations

import sys
from contextvars import ContextVar

from agentlight_instrumentation import settings

TYPE_CHECKING = False  # `typing` costs milliseconds of every start
if TYPE_CHECKING:
    from agentlight_instrumentation.exchange import Exchange

rollout: ContextVar[str | None] = ContextVar("agentlight_rollout", default=None)
role: ContextVar[str | None] = ContextVar("agentlight_role", default=None)
# The rollout that has ended last here: a score that is computed after it is its score.
ended: ContextVar[str | None] = ContextVar("agentlight_ended", default=None)
# The exchange that a transport is at work on: the libraries below it (urllib3 under requests, aiohttp under httpx)
# carry that one, and record nothing of their own.
inside: ContextVar[Exchange | None] = ContextVar("agentlight_inside", default=None)

_process_rollout: str | None = None


def current_rollout() -> str:
    """The rollout of this context, else the one that the launcher named, else one for the whole process."""
    global _process_rollout
    found = rollout.get() or settings.get(settings.ROLLOUT_ID) or _process_rollout
    if found is None:
        from agentlight_store.ids import new_rollout_id

        found = _process_rollout = new_rollout_id()
    return found


def current_role() -> str:
    """The role of this context, else that of the code that started the process, else "agent"."""
    return role.get() or settings.get(settings.CURRENT_ROLE) or "agent"


def scored_rollout() -> str:
    """The rollout that a score belongs to: the current one, else the one that has just ended."""
    return rollout.get() or ended.get() or current_rollout()


def current_trace() -> str | None:
    """The OpenTelemetry span that the agent is in, as `Span.trace`; None for an agent that has no OpenTelemetry."""
    library = sys.modules.get("opentelemetry.trace")
    found = None if library is None else library.get_current_span().get_span_context()
    return None if found is None or not found.is_valid else f"{found.trace_id:032x}-{found.span_id:016x}"
