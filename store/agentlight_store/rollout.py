"""One run of the user's program on one task, as it is read back from the store."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from agentlight_store.headers import FINAL
from agentlight_store.span import Span


@dataclass
class Reward:
    """One score as it was recorded; a later one of the same name replaces it."""

    name: str
    value: float
    source: str
    at: float  # epoch seconds


@dataclass
class Event:
    """Something between the calls: a tool that ran ("tool"), or what the agent was told ("observation")."""

    kind: str
    name: str
    role: str
    content: Any  # of a tool {"arguments", "result", "error"}
    pid: int
    started_at: float  # epoch seconds
    ended_at: float


@dataclass
class Rollout:
    """`rewards` holds the last value a name; `spans` and `events` are in the order in which they started."""

    rollout_id: str
    task_id: str | None = None
    task: dict[str, Any] | None = None
    status: str = "running"  # "running" | "ok" | "failed" | "timeout" | "interrupted"
    exit_code: int | None = None
    started_at: float = 0.0  # epoch seconds
    ended_at: float | None = None
    command: list[str] | None = None
    arm: str | None = None  # "policy" | "own": which server answered, in a run with --canary
    rewards: dict[str, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def reward(self) -> float | None:
        """The score named "reward", else the only one there is; None is unscored and never 0."""
        if FINAL in self.rewards:
            value = self.rewards[FINAL]
        elif len(self.rewards) == 1:
            (value,) = self.rewards.values()
        else:
            return None
        return value if math.isfinite(value) else None

    @property
    def calls(self) -> int:
        return len(self.spans)

    @property
    def prompt_tokens(self) -> int:
        return sum(span.prompt_tokens for span in self.spans)

    @property
    def completion_tokens(self) -> int:
        return sum(span.completion_tokens for span in self.spans)
