"""The command line: what is an option of ours, and combinations that make no sense."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from agentlight_run.cli import parse
from agentlight_run.environment import agent_environment
from agentlight_run.policies import Policies
from agentlight_run.policy import Policy


def test_the_command_begins_at_the_first_word_that_is_no_option() -> None:
    options = parse(["--store", "s", "--reward=exit-code", "python", "-c", "x", "--store", "t"])
    assert (options.store, options.reward, options.command) == ("s", "exit-code", ["python", "-c", "x", "--store", "t"])
    assert parse(["--", "--", "x"]).command == ["--", "x"]
    assert parse(["x", "--", "y"]).command == ["x", "--", "y"]


def test_the_store_is_the_option_else_the_variable_else_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTLIGHT_STORE", raising=False)
    assert parse(["x"]).store == "./store"
    monkeypatch.setenv("AGENTLIGHT_STORE", "variable")
    assert parse(["x"]).store == "variable"
    assert parse(["--store", "option", "x"]).store == "option"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("", "no command"),
        ("--strict", "no command"),
        ("--samples 3 x", "--samples needs --tasks"),
        ("--jobs 3 x", "--jobs needs --tasks"),
        ("--resume x", "--resume needs --tasks"),
        ("--tasks t --task-id a x", "--task-id is for one rollout"),
        ("--adapter d x", "--adapter needs --serve"),
        ("--policy-model m x", "--policy-model needs --policy"),
        ("--serve m --policy u x", "exclude each other"),
        ("--reward score x", "--reward score is neither exit-code nor MODULE:QUALNAME"),
        ("--reward a.py:score: x", "is neither"),
        ("--tasks t --samples 0 x", "'0' is no whole number above 0"),
        ("--timeout soon x", "'soon' is no number of seconds above 0"),
        ("--nosuch x", "unrecognized arguments: --nosuch"),
        ("--sto s x", "unrecognized arguments: --sto"),
    ],
)
def test_a_wrong_option_is_named(options: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        parse(options.split())
    assert raised.value.code == 2
    assert problem in capsys.readouterr().err


def test_the_help_fits_a_screen(launch: Any) -> None:
    assert launch("--help", env={"COLUMNS": "100"}).stdout.count("\n") <= 44


def test_the_module_is_the_command(launch: Any) -> None:
    module = subprocess.run([sys.executable, "-m", "agentlight_run", "--help"], capture_output=True, text=True)
    assert module.stdout == launch("--help").stdout


def test_a_local_policy_is_not_looked_for_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "corp")
    monkeypatch.delenv("no_proxy", raising=False)
    policy = Policies(Policy("http://127.0.0.1:1/v1", "m", {}))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def handed() -> dict[str, str]:
        return agent_environment(store="s", rollout_id="r", report="p", policies=policy)

    assert handed()["NO_PROXY"] == "corp"
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:1")
    assert handed()["NO_PROXY"] == "corp,127.0.0.1,localhost"


def test_nothing_heavy_is_imported_to_start_an_agent(launch: Any, tmp_path: Any) -> None:
    code = (
        "import sys; sys.argv[1:] = ['true']; from agentlight_run.cli import main; main(); print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "agentlight_run.single" in loaded
    assert loaded.isdisjoint({"asyncio", "rich", "pydantic", "subprocess", "ssl", "http", "urllib.request", "wrapt"})
