"""A launched agent behaves as if there were no launcher: exit status, signals, streams, path."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from agentlight_run.environment import INJECT, with_injection

PYTHON = sys.executable
SIGNALLED = """
    import signal, sys, time
    got = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: got.append(signal.Signals(number).name))
    print("ready", flush=True)
    end = time.monotonic() + 20
    while not got and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.3)
    print(",".join(got), flush=True)
    sys.exit(3)
"""


def test_exit_status_is_the_agents(launch: Any) -> None:
    run = launch(PYTHON, "-c", "import sys; sys.exit(7)")
    assert run.returncode == 7
    assert (run.rollout.status, run.rollout.exit_code) == ("failed", 7)
    assert run.rollout.command == [PYTHON, "-c", "import sys; sys.exit(7)"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_agent_killed_by_a_signal_gives_128_and_its_number(launch: Any, number: int) -> None:
    run = launch(PYTHON, "-c", f"import os, signal; signal.signal({number}, 0) if {number} != 9 else 0; "
                 f"os.kill(os.getpid(), {number})")  # fmt: skip
    assert run.returncode == 128 + number
    assert run.rollout.exit_code == 128 + number


def test_a_missing_program_is_one_line_and_127(launch: Any, tmp_path: Path) -> None:
    run = launch("nosuch", "--flag")
    assert run.returncode == 127
    assert run.stderr == "agentlight-run: no such program: 'nosuch' (is it on PATH, and executable?)\n"
    assert run.rollouts == []
    assert sorted(path.name for path in run.store.iterdir()) == ["data.mdb", "lock.mdb"]


def test_what_is_not_executable_is_one_line_and_126(launch: Any, script: Any, tmp_path: Path) -> None:
    script("print(1)")
    run = launch("./agent.py")
    assert run.returncode == 126
    assert "cannot run './agent.py': it is not executable; `python ./agent.py`?" in run.stderr
    assert launch(tmp_path).returncode == 126
    path = script("#!/nosuch/python\n", "bad.sh")
    path.chmod(0o755)
    run = launch("./bad.sh")
    assert run.returncode == 126 and "interpreter" in run.stderr


def test_streams_pass_through_and_our_words_go_to_stderr(launch: Any) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('oops', file=sys.stderr)"
    run = launch(PYTHON, "-c", code, stdin="hello")
    assert run.stdout == "HELLO\n"
    first, *ours = run.stderr.splitlines()
    assert first == "oops"
    assert all(line.startswith("agentlight: ") for line in ours)
    assert ours[-1] == "agentlight: 0 calls, 0 tokens, 1 rollout, unscored -> ./store"


def test_the_agents_own_flags_are_its_own(launch: Any) -> None:
    show = "import sys; print(sys.argv[1:])"
    for separator in ([], ["--"]):
        run = launch(
            "--strict", "--store=store", *separator, PYTHON, "-c", show, "--store", "x", "--", "-h", "--strict"
        )
        assert run.stdout == "['--store', 'x', '--', '-h', '--strict']\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_launcher_alone_reaches_the_agent_once(launch: Any, script: Any, number: int) -> None:
    process = launch.start(PYTHON, script(SIGNALLED))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert out == signal.Signals(number).name + "\n"
    assert process.returncode == 3


def test_ctrl_c_of_the_terminal_reaches_the_agent_once(launch: Any, script: Any) -> None:
    ours, theirs = os.openpty()
    process = launch.start(
        PYTHON,
        script(SIGNALLED),
        stdin=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    os.write(ours, b"\x03")
    out, _ = process.communicate(timeout=30)
    os.close(ours)
    os.close(theirs)
    assert out == "SIGINT\n"
    assert process.returncode == 3


def test_an_agent_that_dies_of_ctrl_c_is_interrupted(launch: Any) -> None:
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a test run in the background
    process = launch.start(PYTHON, "-c", f"{heed}; import time; print('ready', flush=True); time.sleep(20)")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    process.communicate()
    assert launch("--store", "store", PYTHON, "-c", "pass").rollouts[0].status == "interrupted"


def test_timeout_ends_the_agent_and_what_it_started(launch: Any, tmp_path: Path) -> None:
    started = time.monotonic()
    run = launch("--timeout", "0.5", "sh", "-c", "sleep 30 & echo $!; wait")
    assert run.returncode == 124 and time.monotonic() - started < 5
    assert run.rollout.status == "timeout"
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(int(run.stdout))


def _wait_until_gone(pid: int) -> None:
    for _ in range(100):
        os.kill(pid, 0)
        if Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text():
            raise ProcessLookupError
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("given", "handed"),
    [(None, "{}"), ("", "{}"), ("a", "{}:a"), ("a::b", "{}:a::b"), (":a", "{}::a"), ("a:", "{}:a:")],
)
def test_pythonpath_gains_our_folder_and_nothing_else(given: str | None, handed: str) -> None:
    assert with_injection(given) == handed.format(INJECT)


def test_sys_path_differs_by_one_entry(launch: Any, script: Any, tmp_path: Path) -> None:
    """Also where the working directory holds a decoy of a module that we import ourselves."""
    script("raise SystemExit('a decoy of the working directory was imported')", "json.py")
    path = script("import json, sys; print(json.dumps(sys.path))", "elsewhere/show.py")
    environment = {"PYTHONPATH": f"{tmp_path / 'a'}:{tmp_path / 'b'}"}
    alone = subprocess.run([PYTHON, path], cwd=tmp_path, env=environment, capture_output=True, text=True)
    run = launch(PYTHON, path, env=environment)
    first, *others = json.loads(alone.stdout)
    assert json.loads(run.stdout) == [first, str(INJECT), *others]


@pytest.mark.parametrize("fails", [False, True])
def test_the_users_sitecustomize_runs_exactly_once(launch: Any, script: Any, tmp_path: Path, fails: bool) -> None:
    script(
        f"""
        import os
        with open({str(tmp_path / "runs")!r}, "a") as file:
            print(os.getpid(), __name__, __file__, file=file)
        if {fails}:
            raise ValueError("mine")
        """,
        "mine/sitecustomize.py",
    )
    environment = {"PYTHONPATH": str(tmp_path / "mine")}
    run = launch(PYTHON, "-c", "import os; print(os.getpid())", env=environment)
    runs = (tmp_path / "runs").read_text().splitlines()  # the launcher's own interpreter runs it as well
    pid = run.stdout.strip()
    assert [line for line in runs if line.startswith(pid + " ")] == [
        f"{pid} sitecustomize {tmp_path / 'mine' / 'sitecustomize.py'}"
    ]
    assert len(runs) == 2
    assert run.stderr.count("ValueError: mine") == 2 * fails


def test_output_and_exit_with_spawned_processes_are_those_without_us(launch: Any, script: Any, tmp_path: Path) -> None:
    path = script(
        """
        import multiprocessing, sys

        def square(number):
            return number * number

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(square, range(5)), __name__, sys.argv)
            sys.exit(7)
        """
    )
    alone = subprocess.run([PYTHON, path, "-x"], cwd=tmp_path, capture_output=True, text=True)
    run = launch("--reward", "agent:square", PYTHON, path, "-x")
    assert (run.stdout, run.returncode) == (alone.stdout, alone.returncode) == (alone.stdout, 7)


def test_agentlight_run_within_agentlight_run_records_both(launch: Any, tmp_path: Path) -> None:
    inner = [PYTHON, "-m", "agentlight_run", PYTHON, "-c", "import os; print(os.environ['PYTHONPATH'])"]
    run = launch("--task-id", "t1", *inner)
    assert run.stdout == f"{INJECT}\n"
    assert [rollout.task_id for rollout in run.rollouts] == ["t1", "t1"]
