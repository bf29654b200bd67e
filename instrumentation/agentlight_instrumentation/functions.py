"""What is done around the functions named on the command line: --reward, --rollout, --role, --tool."""

from __future__ import annotations

import time
from collections.abc import Generator
from importlib import import_module
from typing import Any

from agentlight_instrumentation import context, rewards, settings
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.report import report
from agentlight_instrumentation.sampling import arm_of
from agentlight_instrumentation.settings import Function
from agentlight_instrumentation.sink import store


def handler_of(function: Function) -> Observer:
    if function.kind != "framework":
        return HANDLERS[function.kind](function)
    file, _, name = function.name.partition(".")
    return getattr(import_module(f"agentlight_instrumentation.frameworks.{file}"), name)(function)


class Observer:
    """Around each call: `bytecode.Handler`, with errors of ours kept from the agent. Kinds say what they do."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.label = f"--{function.kind} {function.target}"

    def begin(self, arguments: dict[str, Any]) -> Any:
        state = None
        with Guarded(f"begin {self.label}"):
            state = self.started(arguments)
            self._set(state)
        return state

    def end(self, state: Any, result: Any, error: BaseException | None) -> None:
        if state is None:  # it could not begin, which has been said
            return
        with Guarded(f"end {self.label}"):
            self._restore(state)
            self.ended(state, result, error)

    def leave(self, state: Any) -> None:
        with Guarded(f"leave {self.label}"):
            self._restore(state)

    def enter(self, state: Any) -> None:
        with Guarded(f"enter {self.label}"):
            self._set(state)

    def steps(self, arguments: dict[str, Any], generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        state, last = self.begin(arguments), None
        step: Any = generator.send
        value: Any = None
        try:
            while True:
                try:
                    last = value = step(value)
                except StopIteration as end:
                    self.end(state, last if end.value is None else end.value, None)
                    return end.value
                self.leave(state)
                try:
                    value, step = (yield value), generator.send
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    value, step = error, generator.throw
                self.enter(state)
        except BaseException as error:
            self.end(state, None, error)
            raise

    # -- of each kind --------------------------------------------------------------------------------------

    variable: Any = None  # the context variable that has a value of its own while the function runs

    def started(self, arguments: dict[str, Any]) -> Any:
        return ()

    def ended(self, state: Any, result: Any, error: BaseException | None) -> None:
        return None

    def _set(self, state: Any) -> None:
        if self.variable is not None and state is not None:
            state.outer = self.variable.get()
            self.variable.set(state.value)

    def _restore(self, state: Any) -> None:
        # Not where a generator is finalised by another task, whose context has never been ours.
        if self.variable is not None and state is not None and self.variable.get() == state.value:
            self.variable.set(state.outer)


class Value:
    """Of a context variable, during one call."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.outer: Any = None


class Reward(Observer):
    """What the function returns is a score: of a generator its return value, else the last value that it gave."""

    def ended(self, state: Any, result: Any, error: BaseException | None) -> None:
        if error is None:
            rewards.returned(result)


class Role(Observer):
    """The calls inside are of this role: the name that was given, else the function's own."""

    variable = context.role

    def started(self, arguments: dict[str, Any]) -> Value:
        return Value(self.role(arguments) or context.role.get())

    def role(self, arguments: dict[str, Any]) -> str | None:
        """None: whose the calls around it are."""
        return self.function.name or self.function.qualname.rpartition(".")[2]


class Rollout(Observer):
    """Each call is a rollout; calls inside belong to it, and rewards until the next one begins."""

    variable = context.rollout

    def started(self, arguments: dict[str, Any]) -> Value:
        return Value(begin_rollout())

    def ended(self, state: Value, result: Any, error: BaseException | None) -> None:
        end_rollout(state.value, error)


def begin_rollout(task_id: str | None = None) -> str:
    from agentlight_store.ids import new_rollout_id

    rollout_id = new_rollout_id()
    report("rollout", id=rollout_id)
    task_id = task_id or settings.get(settings.TASK_ID)
    store().begin_rollout(
        rollout_id, task_id=task_id, started_at=time.time(), arm=arm_of(rollout_id, settings.get(settings.CANARY))
    )
    return rollout_id


def end_rollout(rollout_id: str, error: BaseException | None) -> None:
    context.ended.set(rollout_id)
    left = error is None or isinstance(error, GeneratorExit)
    interrupted = isinstance(error, KeyboardInterrupt) or type(error).__name__ == "CancelledError"
    store().end_rollout(rollout_id, status="ok" if left else "interrupted" if interrupted else "failed")


class Tool(Observer):
    """Each call is recorded with its arguments and what it returned."""

    def started(self, arguments: dict[str, Any]) -> tuple[float, str, Any]:
        return time.time(), *self.used(arguments)

    def ended(self, state: tuple[float, str, Any], result: Any, error: BaseException | None) -> None:
        started_at, name, arguments = state
        record_tool(name, arguments, None if error is not None else self.gave(result), error, started_at)

    def used(self, arguments: dict[str, Any]) -> tuple[str, Any]:
        """The tool's name and its arguments."""
        own = {name: value for name, value in arguments.items() if name not in ("self", "cls")}
        return self.function.name or self.function.qualname.rpartition(".")[2], own

    def gave(self, result: Any) -> Any:
        return result


def record_tool(name: str, arguments: Any, result: Any, error: BaseException | None, started_at: float) -> None:
    """Raises StoreError, as all writing does."""
    store().add_event(
        context.current_rollout(), kind="tool", name=name, role=context.current_role(), started_at=started_at,
        content={"arguments": arguments, "result": result, "error": None if error is None else type(error).__name__},
    )  # fmt: skip


HANDLERS: dict[str, type[Observer]] = {"reward": Reward, "role": Role, "rollout": Rollout, "tool": Tool}
