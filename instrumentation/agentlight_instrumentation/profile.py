"""--profile: how long each part of capture takes; reported after each call, for not every process ends in order."""

from __future__ import annotations

import atexit
import os
from functools import wraps
from importlib import import_module
from threading import local
from time import perf_counter_ns
from typing import Any

from agentlight_instrumentation.report import report

RECORDED = "commit it"
# What a part is called -> where its functions are. The time of a part within another counts for the inner one only.
PARTS = {
    "recognise a request": ("recognise:recognise",),
    "plan what is sent": ("exchange:Exchange.plan", "exchange:Exchange.asks_server"),
    "follow a reply": ("exchange:Exchange.feed", "exchange:Exchange.whole", "exchange:Exchange.held_back"),
    "make a record": ("exchange:span_of", "exchange:Exchange.finish"),
    RECORDED: ("exchange:record",),
    "patch a library": ("imports:patch",),
    "wrap named functions": ("imports:observed",),
}


class Clock:
    def __init__(self) -> None:
        self._stack = local()
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self.times: dict[str, int] = dict.fromkeys(PARTS, 0)  # ns
        self.counts: dict[str, int] = dict.fromkeys(PARTS, 0)

    def timed(self, part: str, function: Any) -> Any:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            stack = self._stack
            outer, stack.inner = getattr(stack, "inner", None), 0  # ns spent in parts within this one
            begun = perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                spent = perf_counter_ns() - begun
                self.times[part] += spent - stack.inner
                self.counts[part] += 1
                stack.inner = None if outer is None else outer + spent
                if outer is None and self.counts[RECORDED]:
                    self.report()

        return call

    def report(self) -> None:
        times, counts = self.times, self.counts
        self._forget()
        for part, count in counts.items():
            if count:
                report("profile", part=part, times=count, ns=times[part])


def start() -> None:
    """To be called before any library is patched, so that all see the timed functions."""
    clock = Clock()
    for part, places in PARTS.items():
        for place in places:
            module, _, qualname = place.partition(":")
            *path, name = qualname.split(".")
            owner = import_module(f"agentlight_instrumentation.{module}")
            for step in path:
                owner = getattr(owner, step)
            found = vars(owner)[name]
            is_property = isinstance(found, property)
            timed = clock.timed(part, found.fget if is_property else found)
            setattr(owner, name, property(timed) if is_property else timed)
    atexit.register(clock.report)
