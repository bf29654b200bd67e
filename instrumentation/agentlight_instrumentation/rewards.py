"""From what an agent's reward function returns to recorded scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlight_instrumentation.context import scored_rollout
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.report import report
from agentlight_instrumentation.sink import store

FINAL = "reward"


def emit(value: Any, *, name: str = FINAL, source: str = "emit_reward") -> None:
    """Record a score of the current rollout.

    A number is kept under `name`. A mapping of names to numbers is kept part by part, and the sum of its parts
    under `name` unless it has that name itself. None means unscored and records nothing. Anything else is
    reported as lost; the agent never sees an error.
    """
    with Guarded(f"record reward {name!r}"):
        if value is None:
            return
        parts = {str(key): number(part) for key, part in value.items()} if isinstance(value, Mapping) else {}
        parts.setdefault(name, sum(parts.values()) if isinstance(value, Mapping) else number(value))
        for part, score in parts.items():
            store().add_reward(scored_rollout(), score, name=part, source=source)


def number(value: Any) -> float:
    """bool, int, float, numpy and torch scalars. Raises TypeError for text and everything else."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"a reward must be a number, not {value!r}")
    return float(value)


def returned(value: Any) -> None:
    """Called with what the function named by --reward returned."""
    report("reward-called")
    emit(value, source="--reward")
