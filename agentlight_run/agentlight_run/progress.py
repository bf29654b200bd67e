"""How far a fan-out is: a live bar on a terminal, a plain line every ten seconds elsewhere; both on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from agentlight_run.summary import Totals

INTERVAL = 10.0  # seconds between plain lines


class Progress(Protocol):
    def update(self, totals: Totals, running: int) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


def progress(total: int) -> Progress:
    return Bar(total) if sys.stderr.isatty() else Lines(total)


class Lines:
    def __init__(self, total: int) -> None:
        self.total = total
        self._next = time.monotonic() + INTERVAL

    def update(self, totals: Totals, running: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL
            self.say(f"{totals.rollouts}/{self.total} rollouts, {running} running, {figures(totals)}")

    def say(self, text: str) -> None:
        print(f"agentlight: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        return


class Bar:
    def __init__(self, total: int) -> None:
        from rich import progress as rich_progress
        from rich.console import Console

        columns: list[Any] = [
            rich_progress.TextColumn("agentlight"),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("{task.description}"),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(compact=True),
        ]
        self._bar = rich_progress.Progress(
            *columns, console=Console(stderr=True, highlight=False), refresh_per_second=5, transient=True
        )
        self._task = self._bar.add_task("starting", total=total)
        self._bar.start()

    def update(self, totals: Totals, running: int) -> None:
        self._bar.update(self._task, completed=totals.rollouts, description=figures(totals))

    def say(self, text: str) -> None:
        self._bar.console.print(f"agentlight: {text}", markup=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()


def figures(totals: Totals) -> str:
    failed = totals.statuses["failed"] + totals.statuses["timeout"]
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{totals.calls:,} calls", f"{totals.tokens:,} tokens"]
    if totals.rewards:
        parts.append(f"reward {sum(totals.rewards) / len(totals.rewards):.3f}")
    return ", ".join(parts)
