"""One rollout in the foreground: the agent as if it ran alone; what is not needed to start it is imported meanwhile."""

from __future__ import annotations

import os
import sys
import time

from agentlight_instrumentation import settings
from agentlight_run.child import Child, check_program
from agentlight_run.cli import named_functions
from agentlight_run.environment import agent_environment, create_report
from agentlight_store import new_rollout_id
from agentlight_store.environment import Environment

TYPE_CHECKING = False  # `typing` is loaded while the agent starts, not before
if TYPE_CHECKING:
    from typing import Any


def run(options: Any) -> int:
    """The agent's exit status, or 3 where --strict finds fault. Raises AgentlightError before the agent starts."""
    store = Environment.at(options.store, create=True)
    with policy_of(options) as policy:
        rollout_id = new_rollout_id()
        report = create_report(store.path)
        environment = agent_environment(
            store=store.path,
            rollout_id=rollout_id,
            report=report,
            task_id=options.task_id,
            functions=named_functions(options),
            policy=policy,
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
            ending.begin(started_at, environment.get(settings.TASK_ID))
            exit_code = child.wait(options.timeout)
        return ending.conclude(exit_code, child.interrupted)  # before a server that we serve takes its time to stop


def policy_of(options: Any) -> Any:
    """A context manager for the Policy that the options ask for, or for None."""
    from contextlib import nullcontext

    if options.serve is not None:
        from agentlight_run.serving import serve

        check_program(options.command[0])
        return serve(options.serve, options.adapter, log=os.path.join(options.store, "serve.log"))
    if options.policy is not None:
        from agentlight_run.policy import probe

        policy = probe(options.policy, options.policy_model)
        if not policy.gives_token_ids:
            say(f"{options.policy} is no vLLM server: its replies have no token ids, so they cannot be trained on")
        return nullcontext(policy)
    return nullcontext()


def say(text: str) -> None:
    print(f"agentlight: {text}", file=sys.stderr, flush=True)
