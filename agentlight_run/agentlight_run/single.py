"""One rollout in the foreground: the agent as if it ran alone; what is not needed to start it is imported meanwhile."""

from __future__ import annotations

import os
import sys
import time

from agentlight_instrumentation import settings
from agentlight_instrumentation.sampling import arm_of
from agentlight_run.child import Child
from agentlight_run.cli import named_functions
from agentlight_run.environment import agent_environment, create_report
from agentlight_run.sampling import variables
from agentlight_store import new_rollout_id
from agentlight_store.environment import Environment

TYPE_CHECKING = False  # `typing` is loaded while the agent starts, not before
if TYPE_CHECKING:
    from typing import Any


def run(options: Any) -> int:
    """The agent's exit status, or 3 where --strict finds fault. Raises AgentlightError before the agent starts."""
    store = Environment.at(options.store, create=True)
    with policies_of(options) as policies:
        rollout_id = new_rollout_id()
        report = create_report(store.path)
        environment = agent_environment(
            store=store.path,
            rollout_id=rollout_id,
            report=report,
            task_id=options.task_id,
            functions=named_functions(options),
            policies=policies,
            variables=variables(options),
        )
        started_at = time.time()
        try:
            child = Child(options.command, environment)
        except BaseException:
            os.unlink(report)
            raise
        with child:
            from agentlight_run.ending import Ending

            ending = Ending(store.path, rollout_id, report, options)
            ending.begin(started_at, environment.get(settings.TASK_ID), arm_of(rollout_id, options.canary))
            exit_code = child.wait(options.timeout)
        return ending.conclude(exit_code, child.interrupted)  # before a server that we serve takes its time to stop


def policies_of(options: Any) -> Any:
    """A context manager for the Policies that the options ask for, or for None."""
    if options.serve is None and not options.policy:
        from contextlib import nullcontext

        return nullcontext()
    from agentlight_run import policies

    return policies.policies_of(options)


def say(text: str) -> None:
    print(f"agentlight: {text}", file=sys.stderr, flush=True)
