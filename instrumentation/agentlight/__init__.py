"""The public face for those who like to write a line: `agentlight.emit_reward(0.8)` in the agent's own code."""

from __future__ import annotations

__all__ = ["emit_reward"]


def emit_reward(value: object, name: str = "reward") -> None:
    """Score the current rollout.

    `value` is a number, a mapping of part names to numbers (their sum is the score), or None for "not scored".
    Outside `agentlight-run` this does nothing. It never raises: a value that is no number is reported at the end.
    """
    from agentlight_instrumentation import rewards, settings

    if settings.get(settings.STORE) is not None:
        rewards.emit(value, name=name)
