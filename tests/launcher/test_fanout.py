"""Rollouts over a task file: some at a time, each recorded, none able to stop the others."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PYTHON = sys.executable


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    rows = [{"id": "good", "code": 0}, {"id": "bad", "code": 4}, {"id": "slow", "code": 0, "seconds": 30}]
    path.write_text("".join(json.dumps({"seconds": 0, **row}) + "\n" for row in rows))
    return path


AGENT = """
    import json, os, sys, time
    task = json.loads(os.environ["AGENTLIGHT_TASK"])
    assert task["id"] == os.environ["AGENTLIGHT_TASK_ID"]
    print("this is", task["id"], sys.argv[1:], sys.stdin.read(), flush=True)
    time.sleep(task["seconds"])
    sys.exit(task["code"])
"""


def test_failed_and_slow_rollouts_are_recorded_and_stop_no_other(launch: Any, script: Any, tasks: Path) -> None:
    command = [PYTHON, script(AGENT), "{id}", "--code={code}"]
    run = launch("--tasks", tasks, "--samples", 2, "--jobs", 6, "--timeout", 2, "--reward", "exit-code", *command)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    ends = sorted((one.task_id, one.status, one.exit_code, one.reward) for one in run.rollouts)
    assert ends == [
        *[("bad", "failed", 4, 0.0)] * 2,
        *[("good", "ok", 0, 1.0)] * 2,
        *[("slow", "timeout", 124, None)] * 2,
    ]
    last = run.stderr.splitlines()[-1]
    assert "6 rollouts (2 failed, 2 timed out), mean reward 0.5 (2 unscored) -> ./store" in last
    for rollout in run.rollouts:
        log = run.store / "logs" / f"{rollout.rollout_id}.log"
        assert log.read_text() == f"this is {rollout.task_id} {rollout.command[2:]} \n"
        assert log.stat().st_mode & 0o777 == 0o600
        assert rollout.task["id"] == rollout.task_id
    assert not list(run.store.glob(".report-*"))


def test_resume_runs_only_what_is_missing(launch: Any, script: Any, tasks: Path) -> None:
    agent = script(AGENT)
    launch("--tasks", tasks, "--jobs", 3, "--timeout", "3", PYTHON, agent)
    script(AGENT.replace('task["seconds"]', "0"))
    run = launch("--tasks", tasks, "--samples", 2, "--resume", PYTHON, agent)
    assert "2 of 6 rollouts are in ./store already; 4 to run" in run.stderr
    ends = sorted((one.task_id, one.status) for one in run.rollouts)
    assert ends == [
        *[("bad", "failed")] * 2, *[("good", "ok")] * 2, ("slow", "ok"), ("slow", "ok"), ("slow", "timeout"),
    ]  # fmt: skip
    run = launch("--tasks", tasks, "--samples", 2, "--resume", PYTHON, agent)
    assert "6 of 6 rollouts are in ./store already; 0 to run" in run.stderr
    assert run.returncode == 0 and len(run.rollouts) == 7


def test_a_timeout_ends_the_whole_process_tree(launch: Any, script: Any, tasks: Path, tmp_path: Path) -> None:
    script("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", "stubborn.py")
    pids = tmp_path / "pids"
    command = f"{PYTHON} stubborn.py & echo $! $$ > {pids}; wait"
    (tmp_path / "one.jsonl").write_text('{"id": 1}\n')
    run = launch("--tasks", "one.jsonl", "--timeout", "1", "sh", "-c", command)
    assert run.rollout.status == "timeout" and run.returncode == 1
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(launch: Any, script: Any, tasks: Path, tmp_path: Path) -> None:
    tasks.write_text("".join(json.dumps({"id": f"t{i}", "code": 0, "seconds": 30 * (i > 0)}) + "\n" for i in range(5)))
    process = launch.start("--tasks", tasks, "--jobs", 2, PYTHON, script(AGENT))
    logs = tmp_path / "store" / "logs"
    end = time.monotonic() + 20
    while sum(log.stat().st_size > 0 for log in logs.glob("*.log")) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    last = err.splitlines()[-1]
    assert last == "agentlight: interrupted with 4 rollouts to run; the same command with --resume runs them"
    rollouts = launch("python3", "-c", "pass").rollouts[:-1]
    assert sorted(one.status for one in rollouts) in (["interrupted", "interrupted", "ok"],)


def test_all_failed_is_an_error(launch: Any, tasks: Path) -> None:
    run = launch("--tasks", tasks, PYTHON, "-c", "print('a hint'); 1 / 0")
    assert run.returncode == 1
    assert "task good failed with exit status 1: ZeroDivisionError: division by zero (log: store/logs/" in run.stderr
    assert run.stderr.splitlines()[-1] == "agentlight: no rollout ended well; what they printed is in ./store/logs"


def test_mistakes_are_found_before_anything_starts(launch: Any, tasks: Path) -> None:
    with tasks.open("a") as file:
        file.write("{oops\n")
    run = launch("--tasks", tasks, PYTHON, "-c", "pass")
    assert run.returncode == 2 and run.stderr.startswith(f"agentlight-run: {tasks} line 4 is not JSON")
    assert launch("--tasks", tasks, PYTHON, "{nosuch}").returncode == 2
    tasks.write_text('{"id": 1}\n')
    assert launch("--tasks", tasks, "nosuch").returncode == 127
    assert not run.store.exists()


def test_each_rollout_has_its_own_calls(launch: Any, script: Any, tmp_path: Path, server: Any) -> None:
    path = script(
        """
        import requests, sys
        for turn in range(2):
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": sys.argv[1]}]}
            requests.post("https://api.openai.com/v1/chat/completions", json=body).raise_for_status()

        def score(word):
            return len(word) / 10

        score(sys.argv[1])
        """
    )
    (tmp_path / "words.jsonl").write_text('{"word": "one"}\n{"word": "three"}\n')
    options = ["--tasks", "words.jsonl", "--samples", 2, "--policy", server.url.removesuffix("/v1"), "--strict"]
    run = launch(*options, "--reward", "agent:score", PYTHON, path, "{word}")
    assert run.returncode == 0, run.stderr
    said = [(one.task["word"], one.reward, [span.messages[0]["content"] for span in one.spans]) for one in run.rollouts]
    assert sorted(said) == [*[("one", 0.3, ["one"] * 2)] * 2, *[("three", 0.5, ["three"] * 2)] * 2]
    assert all(span.trainable and span.model == "smol" for one in run.rollouts for span in one.spans)
    assert "8 calls" in run.stderr and "4 rollouts, mean reward 0.4 -> ./store" in run.stderr
    assert len(server.calls) == 8 and os.path.basename(str(run.store)) == "store"
