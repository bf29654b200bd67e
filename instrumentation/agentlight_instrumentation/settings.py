"""The environment variables that the launcher hands to an agent's process; read once, on first use."""

from __future__ import annotations

import os

STORE = "AGENTLIGHT_STORE"  # absolute path of the store
ROLLOUT_ID = "AGENTLIGHT_ROLLOUT_ID"  # 32 hex digits
CURRENT_ROLE = "AGENTLIGHT_CURRENT_ROLE"  # of the code that started this process
TASK = "AGENTLIGHT_TASK"  # the task as JSON
TASK_ID = "AGENTLIGHT_TASK_ID"
REPORT = "AGENTLIGHT_REPORT"  # the file that report.py appends to
# Functions to observe, separated by spaces: MODULE:QUALNAME, of roles and tools also MODULE:QUALNAME=NAME.
FUNCTIONS = {
    "reward": "AGENTLIGHT_REWARD",
    "rollout": "AGENTLIGHT_ROLLOUT",
    "role": "AGENTLIGHT_ROLE",
    "tool": "AGENTLIGHT_TOOL",
}
POLICY = "AGENTLIGHT_POLICY"  # base URL of the policy server that calls are sent to
POLICY_MODEL = "AGENTLIGHT_POLICY_MODEL"
POLICIES = "AGENTLIGHT_POLICIES"  # JSON {role: {"url": ..., "model": ...}}: policies of single roles
CANARY = "AGENTLIGHT_CANARY"  # share of the rollouts that go to the policy; the others stay with the agent's own server
SAMPLING_RATE = "AGENTLIGHT_SAMPLING_RATE"  # share of the rollouts that are recorded
MAX_SPANS = "AGENTLIGHT_MAX_SPANS_PER_MINUTE"  # that a process records; a rollout with one more is left out as a whole
SERVERS = "AGENTLIGHT_SERVERS"  # JSON {origin: what servers.describe made of it}
STEP_TIMEOUT = "AGENTLIGHT_STEP_TIMEOUT"  # seconds that a call may wait for its next bytes
RETRY_STRATEGY = "AGENTLIGHT_RETRY_STRATEGY"  # "exponential_backoff": a call that timed out is made again
PROFILE = "AGENTLIGHT_PROFILE"  # set: each part of capture is timed
ASYNC = "AGENTLIGHT_ASYNC"  # set: spans are committed by a thread
RAISE = "AGENTLIGHT_RAISE"  # set by our own tests: an error of ours surfaces


def get(name: str) -> str | None:
    """The variable's value; None when it is unset or empty."""
    return os.environ.get(name) or None


class Function:
    """One function that the command line names."""

    def __init__(self, kind: str, target: str, name: str = "") -> None:
        self.kind, self.target = kind, target
        self.module, _, rest = target.partition(":")
        self.qualname, _, given = rest.partition("=")
        self.name = name or given


def functions() -> list[Function]:
    """In the order in which they are put around a function that is named more than once: the rollout is outermost."""
    kinds = ("reward", "tool", "role", "rollout")
    return [Function(kind, target) for kind in kinds for target in (get(FUNCTIONS[kind]) or "").split()]
