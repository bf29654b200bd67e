"""Which rollout and which role the running code belongs to; context variables, so that tasks keep theirs."""

from __future__ import annotations

from contextvars import ContextVar

from agentlight_instrumentation import settings

rollout: ContextVar[str | None] = ContextVar("agentlight_rollout", default=None)
role: ContextVar[str] = ContextVar("agentlight_role", default="agent")
# A transport is at work: the libraries below it (urllib3 under requests, aiohttp under httpx) carry the same exchange.
inside: ContextVar[bool] = ContextVar("agentlight_inside", default=False)

_process_rollout: str | None = None


def current_rollout() -> str:
    """The rollout of this context, else the one that the launcher named, else one for the whole process."""
    global _process_rollout
    found = rollout.get() or settings.get(settings.ROLLOUT_ID) or _process_rollout
    if found is None:
        from agentlight_store.ids import new_rollout_id

        found = _process_rollout = new_rollout_id()
    return found
