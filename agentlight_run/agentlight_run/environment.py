"""What is handed to an agent's process: variables, a file to report to, and one more folder on PYTHONPATH."""

from __future__ import annotations

import os

from agentlight_instrumentation import settings

TYPE_CHECKING = False  # `typing` is loaded while the agent starts, not before
if TYPE_CHECKING:
    from agentlight_run.policies import Policies

INJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inject")


def agent_environment(
    *,
    store: str,
    rollout_id: str,
    report: str,
    task_id: str | None = None,
    task: str | None = None,
    functions: list[tuple[str, str]] | None = None,
    policies: Policies | None = None,
    variables: dict[str, str] | None = None,
) -> dict[str, str]:
    """Ours with the agent's variables set; `store` is absolute, `task` is JSON, `functions` come from flags."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = with_injection(environment.get("PYTHONPATH"))
    environment[settings.STORE] = store
    environment[settings.ROLLOUT_ID] = rollout_id
    environment[settings.REPORT] = report
    if task_id is not None:
        environment[settings.TASK_ID] = task_id
    if task is not None:
        environment[settings.TASK] = task
    for kind, variable in settings.FUNCTIONS.items():
        targets = [target for flag, target in functions or () if flag == f"--{kind}"]
        if targets:
            environment[variable] = " ".join(targets)
    if policies is not None:
        environment |= policies.environment()
    for variable, value in (variables or {}).items():
        environment[variable] = value
    return environment


def create_report(store: str) -> str:
    """The path of a new, empty report file of the owner's; agents append to one that exists and never make one."""
    path = os.path.join(store, f".report-{os.urandom(8).hex()}")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


def with_injection(pythonpath: str | None) -> str:
    """PYTHONPATH with our folder first; every other entry, its order and its emptiness are kept."""
    if not pythonpath:  # Python takes an empty PYTHONPATH for none, but "folder:" for the folder and the cwd
        return INJECT
    if pythonpath.split(os.pathsep)[0] == INJECT:  # agentlight-run under agentlight-run
        return pythonpath
    return INJECT + os.pathsep + pythonpath
