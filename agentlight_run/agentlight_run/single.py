"""One rollout in the foreground: the agent as if it ran alone, then what was recorded of it, in one line."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from agentlight_instrumentation import settings
from agentlight_run import events
from agentlight_run.child import TIMED_OUT, Child, check_program
from agentlight_run.environment import agent_environment
from agentlight_run.summary import Totals, closing_line, warnings
from agentlight_store import Store, new_rollout_id
from agentlight_store.errors import AgentlightError

INCOMPLETE = 3  # the exit status of --strict


def run(options: Any) -> int:
    """The agent's exit status, or 3 where --strict finds fault. Raises AgentlightError before the agent starts."""
    store = Store.open(options.store, create=True)
    with policy_of(options) as policy:
        rollout_id = new_rollout_id()
        report = events.create(store.path)
        environment = agent_environment(
            store=store.path,
            rollout_id=rollout_id,
            report=str(report),
            task_id=options.task_id,
            reward=function_of(options.reward),
            policy=policy,
        )
        started_at = time.time()
        try:
            child = Child(options.command, environment)
        except BaseException:
            events.take(report)
            raise
        with child:
            task_id = environment.get(settings.TASK_ID)
            saved = _guarded(
                store.begin_rollout, rollout_id, task_id=task_id, started_at=started_at, command=options.command
            )
            exit_code = child.wait(options.timeout)
    status = _status(exit_code, child.interrupted, options.timeout)
    saved &= _guarded(finish, store, rollout_id, status, exit_code, options.reward)
    totals = Totals()
    saved &= _guarded(lambda: totals.add(store.rollout(rollout_id), events.take(report)))
    return _conclude(totals, options, exit_code, saved)


def policy_of(options: Any) -> Any:
    """A context manager for the Policy that the options ask for, or for None."""
    if options.serve is not None:
        check_program(options.command[0])
        from agentlight_run.serving import serve

        return serve(options.serve, options.adapter, log=Path(options.store) / "serve.log")
    if options.policy is not None:
        from agentlight_run.policy import probe

        policy = probe(options.policy, options.policy_model)
        if not policy.gives_token_ids:
            say(f"{options.policy} is no vLLM server: its replies have no token ids, so they cannot be trained on")
        return nullcontext(policy)
    return nullcontext()


def function_of(reward: str | None) -> str | None:
    """What the agent's process is to observe: MODULE:QUALNAME."""
    return None if reward == "exit-code" else reward


def finish(store: Store, rollout_id: str, status: str, exit_code: int, reward: str | None) -> None:
    """Write the end of a rollout; an exit status that we caused is no score of the agent."""
    if reward == "exit-code" and status in ("ok", "failed"):
        store.add_reward(rollout_id, float(exit_code == 0), source="--reward exit-code")
    store.end_rollout(rollout_id, status=status, exit_code=exit_code)


def say(text: str) -> None:
    print(f"agentlight: {text}", file=sys.stderr, flush=True)


def _status(exit_code: int, interrupted: bool, timeout: float | None) -> str:
    if exit_code == 0:
        return "ok"
    if exit_code == TIMED_OUT and timeout is not None:
        return "timeout"
    return "interrupted" if interrupted else "failed"


def _guarded(action: Any, *arguments: Any, **keywords: Any) -> bool:
    """False, and said, when the store fails us now: the agent has started, and its exit status is to be passed on."""
    try:
        action(*arguments, **keywords)
    except (AgentlightError, OSError) as error:
        say(f"warning: {error}")
        return False
    return True


def _conclude(totals: Totals, options: Any, exit_code: int, saved: bool) -> int:
    for line in warnings(totals, options.command, options.reward):
        say(f"warning: {line}")
    print(closing_line(totals, options.store), file=sys.stderr, flush=True)
    failed = options.strict and exit_code == 0 and not (saved and totals.complete)
    return INCOMPLETE if failed else exit_code
