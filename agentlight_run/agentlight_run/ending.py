"""The record of a rollout that the launcher writes around the agent's own, and its last words on the terminal."""

from __future__ import annotations

import sys

from agentlight_run import events
from agentlight_run.child import TIMED_OUT
from agentlight_run.cli import named_functions
from agentlight_run.single import say
from agentlight_run.summary import Totals, closing_line, notes, warnings
from agentlight_store import headers
from agentlight_store.environment import Environment
from agentlight_store.errors import AgentlightError

TYPE_CHECKING = False  # all this is loaded while the agent starts: what it does not take leaves the agent the time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INCOMPLETE = 3  # the exit status of --strict


class Ending:
    """Of one rollout in the foreground.

    The agent has started: a store that fails us from now on is said, and the agent's exit status passed on.
    """

    def __init__(self, store: str, rollout_id: str, report: str, options: Any) -> None:
        self.store = Environment.at(store)
        self.rollout_id = rollout_id
        self.report = report
        self.options = options
        self.totals = Totals()
        self.recorded = True

    def begin(self, started_at: float, task_id: str | None, arm: str | None) -> None:
        command = self.options.command
        self._try(
            lambda: headers.begin(
                self.store, self.rollout_id, task_id=task_id, started_at=started_at, command=command, arm=arm
            )
        )

    def conclude(self, exit_code: int, interrupted: bool) -> int:
        """Record the end, say what was captured, and return our exit status."""
        options = self.options
        status = self._status(exit_code, interrupted)
        self._try(lambda: finish(self.store, self.rollout_id, status, exit_code, options.reward))
        self._try(lambda: self.totals.take(self.store, self.rollout_id, status, events.take(self.report), options))
        for line in warnings(self.totals, options.command, named_functions(options)):
            say(f"warning: {line}")
        for line in notes(self.totals):
            say(line)
        print(closing_line(self.totals, options.store), file=sys.stderr, flush=True)
        failed = options.strict and exit_code == 0 and not (self.recorded and self.totals.complete)
        return INCOMPLETE if failed else exit_code

    def _status(self, exit_code: int, interrupted: bool) -> str:
        if exit_code == 0:
            return "ok"
        if exit_code == TIMED_OUT and self.options.timeout is not None:
            return "timeout"
        return "interrupted" if interrupted else "failed"

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except (AgentlightError, OSError) as error:
            self.recorded = False
            say(f"warning: {error}")


def finish(store: Environment, rollout_id: str, status: str, exit_code: int, reward: str | None) -> None:
    """Write the end of a rollout; an exit status that we caused is no score of the agent."""
    if reward == "exit-code" and status in ("ok", "failed"):
        headers.add_reward(store, rollout_id, float(exit_code == 0), source="--reward exit-code")
    headers.end(store, rollout_id, status=status, exit_code=exit_code)
