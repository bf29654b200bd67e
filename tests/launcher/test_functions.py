"""--rollout, --role and --tool on the command line, and what the closing line makes of them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agentlight_store import Store

AGENT = """
import httpx, sys
def one(text):
    body = {"model": "smol", "messages": [{"role": "user", "content": text}]}
    httpx.post(sys.argv[1] + "/chat/completions", json=body)
for number in range(3):
    one(str(number))
"""


def test_each_call_of_the_function_counts_as_a_rollout(launch: Any, script: Any, server: Any, tmp_path: Any) -> None:
    """Three calls, three rollouts: the process itself, which called no model outside of them, is none."""
    path = script(AGENT)
    run = launch("--task-id", "t1", "--rollout", f"{path.stem}:one", sys.executable, path, server.url)
    assert "3 calls, " in run.stderr and "3 rollouts, unscored" in run.stderr
    with Store.open(tmp_path / "store") as store:
        assert [(one.calls, one.status, one.task_id) for one in store.rollouts()] == [(1, "ok", "t1")] * 3


def test_a_function_that_is_not_there_is_said(launch: Any, script: Any, server: Any) -> None:
    path = script(AGENT)
    wrong = ["--tool", f"{path.stem}:search=find", "--role", "nowhere:f", "--rollout", f"{path.stem}:one"]
    run = launch(*wrong, sys.executable, path, server.url)
    assert f"--tool {path.stem}:search=find: {path.stem} has no function 'search'; it defines: one" in run.stderr
    assert "--role nowhere:f: no module nowhere was imported" in run.stderr
    assert "--rollout" not in run.stderr


@pytest.mark.parametrize("flag", ["--rollout", "--role", "--tool"])
def test_a_name_without_a_module_is_refused(launch: Any, flag: str) -> None:
    run = launch(flag, "search", sys.executable, "-c", "pass")
    assert run.returncode == 2 and f"{flag} search is not MODULE:QUALNAME" in run.stderr
