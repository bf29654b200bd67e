"""What was not captured is said, with its cause; --strict makes it an error."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from agentlight_run.summary import isolating_flags

PYTHON = sys.executable
CALL = """
import requests, sys
body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}]}
requests.post(sys.argv[1] + "/chat/completions", json=body).raise_for_status()
"""


def test_the_closing_line_counts(launch: Any, script: Any, server: Any) -> None:
    path = script(CALL + "import agentlight; agentlight.emit_reward(0.8)\n")
    run = launch("--strict", "--store", "./store/", PYTHON, path, server.url)
    assert run.returncode == 0, run.stderr
    tokens = run.rollout.prompt_tokens + run.rollout.completion_tokens
    assert run.stderr == f"agentlight: 1 call, {tokens} tokens, 1 rollout, reward 0.8 -> ./store/\n"


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        ([PYTHON, "-I", "-c", "pass"], "Python was started with -I, which switches capture off"),
        ([PYTHON, "-uE", "-c", "pass"], "Python was started with -E, which switches capture off"),
        (["true"], "no Python process of 'true' started capture"),
        ([PYTHON, "-c", "pass"], "the agent imported no HTTP library that agentlight knows"),
        ([PYTHON, "-c", "import urllib3"], "the agent imported http.client and urllib3, but sent no LLM request"),
    ],
)
def test_no_call_is_a_warning_that_names_the_cause(launch: Any, command: list[str], cause: str) -> None:
    run = launch("--strict", *command)
    assert f"agentlight: warning: no LLM call was captured: {cause}" in run.stderr
    assert run.returncode == 3


def test_strict_leaves_the_agents_own_failure_alone(launch: Any) -> None:
    assert launch("--strict", PYTHON, "-c", "raise SystemExit(7)").returncode == 7


def test_an_interpreter_without_agentlight_is_named_with_the_remedy(launch: Any, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    run = launch("--strict", python, "-c", "print('runs')")
    assert run.stdout == "runs\n" and run.returncode == 3
    remedy = f"{python}, which has no agentlight: {python} -m pip install agentlight"
    assert f"agentlight: warning: capture did not start in {remedy}\n" in run.stderr


def test_calls_that_cannot_be_trained_on_are_said(launch: Any, script: Any, server: Any) -> None:
    server.owned_by = "somebody"
    run = launch(PYTHON, script(CALL), server.url)
    assert "warning: 1 of 1 call cannot be trained on: no token ids" in run.stderr


def test_a_reward_function_that_is_missing_or_not_called_is_said(launch: Any, script: Any) -> None:
    path = script("def score(x):\n    return x\n")
    run = launch("--reward", "agent:scor", PYTHON, path)
    assert "warning: no reward was recorded: agent has no function 'scor'; it defines: score" in run.stderr
    run = launch("--reward", "agent:score", PYTHON, path)
    assert "warning: no reward was recorded: agent:score was never called" in run.stderr


def test_exit_code_is_a_reward(launch: Any) -> None:
    assert launch("--reward", "exit-code", PYTHON, "-c", "pass").rollout.reward == 1.0
    run = launch("--reward", "exit-code", PYTHON, "-c", "raise SystemExit(2)")
    assert [rollout.reward for rollout in run.rollouts] == [1.0, 0.0]


def test_what_was_lost_is_said_and_strict_fails(launch: Any, script: Any) -> None:
    path = script("import agentlight; agentlight.emit_reward('good')")
    run = launch("--strict", PYTHON, path)
    assert "warning: not everything was recorded: could not record reward 'reward'" in run.stderr
    assert run.returncode == 3


def test_a_store_that_cannot_be_used_is_said_before_the_agent_starts(launch: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for store in ("file", "file/store"):
        run = launch("--store", store, PYTHON, "-c", "print('started')")
        assert run.returncode == 2 and run.stdout == ""
        assert run.stderr.startswith("agentlight-run: ") and run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("python agent.py -I", ""),
        ("python -m tool -E", ""),
        ("/usr/bin/python3.12 -X dev -Wignore -IS agent.py", "-I -S"),
        ("python -c -I", ""),
        ("nosuch -I", ""),
        ("./tool", "-E"),
        ("./envtool", "-I"),
    ],
)
def test_isolating_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, flags: str) -> None:
    for name, line in {"tool": "#!/usr/bin/python3 -E", "envtool": "#!/usr/bin/env -S python -I"}.items():
        (tmp_path / name).write_text(line + "\n")
        os.chmod(tmp_path / name, 0o755)
    monkeypatch.chdir(tmp_path)
    assert isolating_flags(command.split()) == flags
