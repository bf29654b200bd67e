"""agentlight-store: its contract of --json, what it prints for people, and its errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from spans import make_span

from agentlight_store import Choice, Store
from agentlight_store.cli import main
from agentlight_store.environment import REWARDS
from agentlight_store.store import scan

SHOW = {
    "rollout_id", "task_id", "span_id", "role", "pid", "model", "messages", "text", "tool_calls", "prompt_ids",
    "completion_ids", "completion_logprobs", "sampling", "finish_reason", "status", "trainable", "reason",
    "policy_version", "started_at", "ended_at", "http_status",
}  # fmt: skip
LS = {
    "rollout_id", "task_id", "status", "exit_code", "calls", "prompt_tokens", "completion_tokens", "rewards",
    "reward", "started_at", "ended_at",
}  # fmt: skip
FIRST, SECOND = "aa" * 16, "bb" * 16


@pytest.fixture
def path(tmp_path: Path) -> str:
    with Store.open(tmp_path / "store", create=True) as store:
        store.begin_rollout(FIRST, task_id="task-1", started_at=10.0)
        span = make_span([1, 2], [3, 4], started_at=11.0, messages=[{"role": "user", "content": "[bold]\ud800"}])
        span.choices[0].completion_logprobs = array("f", [-0.5, float("nan")])
        span.choices.append(Choice(1, "second", [{"id": "c"}], "tool_calls", array("I", [5]), array("f", [-0.25])))
        store.append(FIRST, span)
        error = {
            "status": "error",
            "http_status": 500,
            "trainable": False,
            "reason": "the call failed: x",
            "choices": [],
        }
        store.append(FIRST, make_span(started_at=12.0, **error, prompt_ids=None))
        store.add_reward(FIRST, 0.5)
        store.end_rollout(FIRST, status="ok", exit_code=0, ended_at=13.0)
        store.begin_rollout(SECOND, started_at=20.0)
        store.add_reward(SECOND, float("nan"))
    return str(tmp_path / "store")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in capsys.readouterr().out.splitlines()]


def test_ls_json_is_one_line_a_rollout(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exactly the contract's keys; a score that is no finite number is null."""
    assert main(["ls", path, "--json"]) == 0
    first, second = lines(capsys)
    assert set(first) == set(second) == LS
    assert first == {
        "rollout_id": FIRST, "task_id": "task-1", "status": "ok", "exit_code": 0, "calls": 2, "prompt_tokens": 2,
        "completion_tokens": 3, "rewards": {"reward": 0.5}, "reward": 0.5, "started_at": 10.0, "ended_at": 13.0,
    }  # fmt: skip
    assert (second["rewards"], second["reward"], second["status"]) == ({"reward": None}, None, "running")


def test_show_json_is_one_line_a_call(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All of the contract's keys, by a beginning of the id; NaN is null, and n > 1 has every choice."""
    assert main(["show", path, "a", "--json"]) == 0
    first, second = lines(capsys)
    assert set(first) >= SHOW and set(second) >= SHOW
    assert (first["rollout_id"], first["task_id"], first["role"], first["model"]) == (FIRST, "task-1", "agent", "smol")
    assert (first["prompt_ids"], first["completion_ids"]) == ([1, 2], [3, 4])
    assert first["completion_logprobs"] == [-0.5, None]
    assert first["messages"][0]["content"] == "[bold]\ud800"
    assert [choice["completion_ids"] for choice in first["choices"]] == [[3, 4], [5]]
    assert (second["status"], second["http_status"], second["trainable"]) == ("error", 500, False)
    assert (second["completion_ids"], second["prompt_ids"], second["text"]) == (None, None, None)


def test_people_can_read_it_too(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables and calls without --json: markup in a message is text, a lone surrogate is no crash."""
    for command in (["ls", path], ["show", path, FIRST], ["stats", path]):
        assert main(command) == 0
    out = capsys.readouterr().out
    for text in (FIRST, "task-1", "[bold]", "not trainable: the call failed: x", "0.5"):
        assert text in out


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_any_terminal_will_do(encoding: str, path: str) -> None:
    """Text that the terminal's encoding lacks is replaced, never an error."""
    code = "import sys; from agentlight_store.cli import main; sys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-c", code, "show", path, FIRST], capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, b"")


def test_stats_json_counts(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls by state, reasons, tokens, and means over finite scores only."""
    assert main(["stats", path, "--json"]) == 0
    (figures,) = lines(capsys)
    assert (figures["rollouts"], figures["calls"], figures["tasks"]) == (2, 2, 1)
    assert figures["calls_by_state"] == {"ok": 1, "error": 1, "trainable": 1}
    assert figures["not_trainable_because"] == {"the call failed: x": 1}
    assert (figures["prompt_tokens"], figures["completion_tokens"]) == (2, 3)
    assert figures["mean_reward"] == {"reward": 0.5}
    assert figures["agent.step.timeout_rate"] == 0.0  # of 2 calls
    assert figures["trajectory_collection_rate"] == 0.5  # 1 of 2 rollouts has a score and a call to train on


def test_check_says_clean_or_exits_1(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The fixture's NaN reward is a finding; a store without one is clean."""
    assert main(["check", path]) == 1
    assert "counted as unscored" in capsys.readouterr().out
    assert main(["check", path, "--json"]) == 1
    assert [set(line) for line in lines(capsys)] == [{"finding"}]
    with Store.open(path) as store:
        store.environment.write(lambda txn: [txn.delete(key) for key, _ in list(scan(txn, REWARDS))])
    assert main(["check", path]) == 0
    assert capsys.readouterr().out == f"{path}: clean\n"


SCORERS = """
import neighbour

def length(rollout):
    return float(sum(span.completion_tokens for span in rollout.spans)) or None

def tasks(rollout):
    return neighbour.VALUE if rollout.task_id else 0

class Judge:
    @staticmethod
    def fair(rollout):
        return True

def fails(rollout):
    raise KeyError("answer")

def text(rollout):
    return "good"

def infinite(rollout):
    return float("inf")

number = 3
"""


@pytest.fixture
def scorers(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("VALUE = 2\n")
    (tmp_path / "scorers.py").write_text(SCORERS)
    return str(tmp_path / "scorers.py")


def test_scores_of_several_names_stand_side_by_side(
    path: str, scorers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scored again and again: each name keeps its last value, and None leaves a rollout unscored."""
    for arguments in ([":length"], [":length", "--name", "l2"], [":tasks"], [":Judge.fair", "--name", "reward"]):
        assert main(["score", path, scorers + arguments[0], *arguments[1:]]) == 0
        assert "rollouts scored" in capsys.readouterr().err
    assert main(["score", path, f"{scorers}:tasks", "--json"]) == 0
    assert lines(capsys) == [
        {"rollout_id": FIRST, "name": "tasks", "value": 2.0}, {"rollout_id": SECOND, "name": "tasks", "value": 0.0},
    ]  # fmt: skip
    main(["ls", path, "--json"])
    first, second = lines(capsys)
    assert first["rewards"] == {"reward": 1.0, "length": 3.0, "l2": 3.0, "tasks": 2.0}
    assert second["rewards"] == {"reward": 1.0, "tasks": 0.0}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (":fails", "fails failed: KeyError: 'answer'"),
        (":text", "text returned 'good', which is no finite number"),
        (":infinite", "returned inf, which is no finite number"),
        (":nosuch", "has no function 'nosuch'"),
        (":number", "has no function 'number'"),
        ("", "is not FILE.py:FUNCTION"),
        (".txt:length", "is not FILE.py:FUNCTION with an existing file"),
    ],
)
def test_a_scorer_that_cannot_score_is_one_line_and_exit_2(
    function: str, text: str, path: str, scorers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the rollout where there is one, the function, and what went wrong; no traceback."""
    assert main(["score", path, scorers + function]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("agentlight-store: ") and captured.err.count("\n") == 1
    assert text in captured.err
    if function in (":fails", ":text"):
        assert FIRST in captured.err


def test_a_scorer_file_that_does_not_import_is_said(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A syntax error, a failing import, a script that exits, a folder."""
    for source, text in (
        ("def f(:", "SyntaxError"),
        ("import nosuchthing", "ModuleNotFoundError"),
        ("exit(0)", "SystemExit"),
    ):
        (tmp_path / "bad.py").write_text(source)
        assert main(["score", path, f"{tmp_path / 'bad.py'}:f"]) == 2
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("command", [["ls"], ["show", "aa"], ["stats"], ["check"], ["score", "x.py:f"]])
def test_errors_are_one_line_and_exit_2(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No store there: each command says so and creates nothing."""
    name, *rest = command
    assert main([name, str(tmp_path / "none"), *rest]) == 2
    assert capsys.readouterr().err.startswith(f"agentlight-store: no store at {tmp_path / 'none'}")
    assert os.listdir(tmp_path) == []


def test_an_unknown_rollout_is_said(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And what lists the known ones."""
    assert main(["show", path, "ff"]) == 2
    assert "agentlight-store ls" in capsys.readouterr().err


def test_a_closed_pipe_ends_quietly(path: str) -> None:
    """`agentlight-store ls STORE | head -1` prints no traceback."""
    code = "import sys; from agentlight_store.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "show", path, FIRST, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == 0
