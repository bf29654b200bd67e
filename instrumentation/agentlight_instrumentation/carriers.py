"""Rollout and role go along to where work is handed on: threads, executors, processes; asyncio does so itself.

Only when functions are rollouts or roles: otherwise a process has one of each, and nothing to carry. The agent's own
context variables stay where they were.
"""

from __future__ import annotations

import os
from functools import partial, wraps
from types import ModuleType
from typing import Any

from agentlight_instrumentation import context, settings

_HERE = "_agentlight_context"  # on a thread or process object between its making and its start


def here() -> tuple[str | None, str | None]:
    return context.rollout.get(), context.role.get()


def enter(carried: tuple[str | None, str | None]) -> None:
    context.rollout.set(carried[0])
    context.role.set(carried[1])


def during(carried: tuple[str | None, str | None], function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call the function with this rollout and role; a module's function, so that it can be pickled."""
    before = here()
    enter(carried)
    try:
        return function(*args, **kwargs)
    finally:
        enter(before)


def patch(library: ModuleType) -> None:
    PATCHES[library.__name__](library)


def _threading(library: Any) -> None:
    _carry_over_start(library.Thread, "_bootstrap_inner")


def _processes(library: Any) -> None:
    _carry_over_start(library.BaseProcess, "_bootstrap")


def _carry_over_start(kind: Any, begins: str) -> None:
    """`start` is called here, `begins` there; a process object is pickled in between."""
    start, begin = kind.start, getattr(kind, begins)

    @wraps(start)
    def started(self: Any) -> None:
        self.__dict__[_HERE] = here()
        try:
            start(self)
        finally:
            self.__dict__.pop(_HERE, None) if begins == "_bootstrap" else None

    @wraps(begin)
    def begun(self: Any, *args: Any, **kwargs: Any) -> Any:
        if carried := self.__dict__.pop(_HERE, None):
            enter(carried)
        return begin(self, *args, **kwargs)

    kind.start = started
    setattr(kind, begins, begun)


def _executor(name: str, library: Any) -> None:
    kind = getattr(library, name)
    submit = kind.submit

    @wraps(submit)
    def submitted(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, partial(during, here(), fn), *args, **kwargs)

    kind.submit = submitted


def _subprocess(library: Any) -> None:
    init = library.Popen.__init__

    @wraps(init)
    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        rollout, role = here()
        if rollout is not None or role is not None:
            environment = dict(os.environ if kwargs.get("env") is None else kwargs["env"])
            environment |= {settings.ROLLOUT_ID: rollout} if rollout else {}
            environment |= {settings.CURRENT_ROLE: role} if role else {}
            kwargs["env"] = environment
        init(self, *args, **kwargs)

    library.Popen.__init__ = begun


PATCHES: dict[str, Any] = {
    "threading": _threading,
    "concurrent.futures.thread": partial(_executor, "ThreadPoolExecutor"),
    "concurrent.futures.process": partial(_executor, "ProcessPoolExecutor"),
    "subprocess": _subprocess,
    "multiprocessing.process": _processes,
}
