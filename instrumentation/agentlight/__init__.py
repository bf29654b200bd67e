"""The public face, for those who like to write a line in the agent's own code; each does nothing outside a run."""

from __future__ import annotations

from agentlight.runtime import inject_runtime, rollout

__all__ = ["emit_observation", "emit_reward", "inject_runtime", "rollout"]


def emit_reward(value: object, name: str = "reward") -> None:
    """Score the current rollout, or the one that has just ended.

    `value` is a number, a mapping of part names to numbers (their sum is the score), or None for "not scored".
    It never raises: a value that is no number is reported at the end.
    """
    from agentlight_instrumentation import rewards, settings

    if settings.get(settings.STORE) is not None:
        rewards.emit(value, name=name)


def emit_observation(*, role: str, content: object, name: str = "") -> None:
    """Record what the agent was told or saw between its calls; `content` is any value. It never raises."""
    from agentlight_instrumentation import context, settings
    from agentlight_instrumentation.guard import Guarded
    from agentlight_instrumentation.sink import store

    if settings.get(settings.STORE) is not None:
        with Guarded("record an observation"):
            rollout_id = context.current_rollout()
            store().add_event(rollout_id, kind="observation", name=name, role=role, content=content)
