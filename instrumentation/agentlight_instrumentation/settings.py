"""The environment variables that the launcher hands to an agent's process; read once, on first use."""

from __future__ import annotations

import os

STORE = "AGENTLIGHT_STORE"  # absolute path of the store
ROLLOUT_ID = "AGENTLIGHT_ROLLOUT_ID"  # 32 hex digits
TASK = "AGENTLIGHT_TASK"  # the task as JSON
TASK_ID = "AGENTLIGHT_TASK_ID"
REPORT = "AGENTLIGHT_REPORT"  # the file that report.py appends to
REWARD = "AGENTLIGHT_REWARD"  # MODULE:QUALNAME of the reward function
POLICY = "AGENTLIGHT_POLICY"  # base URL of the policy server that calls are sent to
POLICY_MODEL = "AGENTLIGHT_POLICY_MODEL"
SERVERS = "AGENTLIGHT_SERVERS"  # JSON {origin: what servers.describe made of it}
RAISE = "AGENTLIGHT_RAISE"  # set by our own tests: an error of ours surfaces


def get(name: str) -> str | None:
    """The variable's value; None when it is unset or empty."""
    return os.environ.get(name) or None
