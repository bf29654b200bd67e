"""What is handed to an agent's process: variables, a file to report to, and one more folder on PYTHONPATH."""

from __future__ import annotations

import os

from agentlight_instrumentation import settings

TYPE_CHECKING = False  # `typing` is loaded while the agent starts, not before
if TYPE_CHECKING:
    from agentlight_run.policy import Policy

INJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inject")
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def agent_environment(
    *,
    store: str,
    rollout_id: str,
    report: str,
    task_id: str | None = None,
    task: str | None = None,
    functions: list[tuple[str, str]] | None = None,
    policy: Policy | None = None,
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
    if policy is not None:
        environment |= _toward(policy)
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


def _toward(policy: Policy) -> dict[str, str]:
    import json

    variables = {
        settings.POLICY: policy.url,
        settings.POLICY_MODEL: policy.model,
        settings.SERVERS: json.dumps(policy.servers),
    }
    if policy.is_local and any(os.environ.get(name) for name in PROXIES):
        # An agent behind a proxy would look for this machine's own server there.
        for name in ("no_proxy", "NO_PROXY"):
            variables[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1", "localhost")))
    return variables
