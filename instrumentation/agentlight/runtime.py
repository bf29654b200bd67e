"""For those who start Python themselves (a notebook, a server): begin capture here, and say what a rollout is."""

from __future__ import annotations

import os
from functools import wraps
from typing import Any


def inject_runtime(
    agent: Any = None, *, component: str | None = None, endpoint: str | None = None, store: str | None = None
) -> Any:
    """Begin capture in this process, as `agentlight-run` would; libraries that are imported already are covered.

    `store` is the folder to record in (default: $AGENTLIGHT_STORE, else ./store). `endpoint` is the policy server
    that calls are sent to (default: the agent's own server). An `agent` that can be called is returned as one whose
    every call is a rollout, its LLM calls of the role `component`; any other is returned as it is.
    Raises StoreError when the store cannot be opened: who writes this line wants to know.
    """
    from agentlight_instrumentation import bootstrap, settings, sink

    os.environ[settings.STORE] = os.path.abspath(store or settings.get(settings.STORE) or "store")
    sink.store()
    if endpoint is not None:
        os.environ[settings.POLICY] = endpoint
    bootstrap.start(carry=True)
    return rollout(role=component)(agent) if callable(agent) else agent


class rollout:  # used as `with rollout():` and `@rollout()`, as contextlib's own
    """What runs inside is one rollout: `with rollout(task_id="7"):`, `async with`, or `@rollout()` on a function.

    `role` names the agent role of its calls. Outside a run it does nothing.
    """

    def __init__(self, task_id: str | None = None, *, role: str | None = None) -> None:
        self._task_id, self._role = task_id, role
        self._open: list[Any] = []
        self.rollout_id: str | None = None

    def __enter__(self) -> rollout:
        from agentlight_instrumentation import context, functions, settings
        from agentlight_instrumentation.guard import Guarded

        if settings.get(settings.STORE) is None:
            return self
        with Guarded("begin a rollout"):
            self._open.append((context.rollout.get(), context.role.get()))
            self.rollout_id = functions.begin_rollout(self._task_id)
            context.rollout.set(self.rollout_id)
            context.role.set(self._role or context.role.get())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not self._open:
            return
        from agentlight_instrumentation import context, functions
        from agentlight_instrumentation.guard import Guarded

        with Guarded("end a rollout"):
            outer, role = self._open.pop()
            context.rollout.set(outer)
            context.role.set(role)
            if self.rollout_id is not None:
                functions.end_rollout(self.rollout_id, error)

    async def __aenter__(self) -> rollout:
        return self.__enter__()

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, function: Any) -> Any:
        from inspect import iscoroutinefunction

        def fresh() -> rollout:
            return rollout(self._task_id, role=self._role)

        if iscoroutinefunction(function):

            @wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with fresh():
                    return await function(*args, **kwargs)

            return run_async

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with fresh():
                return function(*args, **kwargs)

        return run
