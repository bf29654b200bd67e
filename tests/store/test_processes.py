"""Many processes and threads on one store, forks, kills, and a map that has to grow."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from spans import make_span

from agentlight_store import Store, environment, new_rollout_id
from agentlight_store.check import check

TESTS = str(Path(__file__).parents[1])


def spawn(source: str, *arguments: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A Python process that can import the tests' own modules."""
    command = [sys.executable, "-c", source, *arguments]
    variables = os.environ | {"PYTHONPATH": TESTS} | (environ or {})
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)


def test_a_call_that_was_appended_survives_sigkill(tmp_path: Path) -> None:
    """SIGKILL right after the 50th append returned: 50 calls, and the store is clean."""
    source = """
import os, sys
from agentlight_store import Store
from spans import make_span
store = Store.open(sys.argv[1], create=True)
for number in range(50):
    store.append("ab" * 16, make_span(started_at=float(number)))
os.kill(os.getpid(), 9)
"""
    process = spawn(source, str(tmp_path / "store"))
    assert process.wait(30) == -signal.SIGKILL
    with Store.open(tmp_path / "store") as store:
        assert [span.started_at for span in store.rollout("ab" * 16).spans] == list(range(50))
    assert check(tmp_path / "store") == []


def test_sixteen_processes_append_to_one_store(tmp_path: Path) -> None:
    """16 x 500 calls that begin at once, the store's creation included: 8,000 calls, and it is clean."""
    source = """
import sys
from agentlight_store import Store
from spans import make_span
rollout_id = f"{int(sys.argv[2]):032x}"
store = Store.open(sys.argv[1], create=True)
prompt = list(range(200))
for number in range(500):
    store.append(rollout_id, make_span(prompt + [number], [number, 7], started_at=float(number)))
"""
    processes = [spawn(source, str(tmp_path / "store"), str(number)) for number in range(16)]
    assert [process.wait(120) for process in processes] == [0] * 16
    with Store.open(tmp_path / "store") as store:
        rollouts = list(store.rollouts())
    assert [rollout.calls for rollout in rollouts] == [500] * 16
    assert [list(span.prompt_ids or ())[-1] for span in rollouts[3].spans] == list(range(500))
    assert check(tmp_path / "store") == []


def in_child(work) -> int:
    """Run `work` in a forked child; returns its pid."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def test_parent_and_child_both_write_after_a_fork(tmp_path: Path) -> None:
    """50 forks from a process that has written; parent and children append at the same time, and nothing is lost."""
    with Store.open(tmp_path / "store", create=True) as store:
        rollout_id = new_rollout_id()
        store.append(rollout_id, make_span())
        for number in range(50):
            pid = in_child(lambda number=number: store.append(rollout_id, make_span([number] * 100, [8])))
            store.append(rollout_id, make_span([number] * 100, [9]))
            assert os.waitpid(pid, 0)[1] == 0
        first = [(span.completion_ids or [0])[0] for span in store.rollout(rollout_id).spans]
        assert sorted(first) == [4] + [8] * 50 + [9] * 50
    assert check(tmp_path / "store") == []


def test_a_fork_while_threads_write_hangs_nobody(tmp_path: Path) -> None:
    """4 threads append without a pause, the main thread forks 50 times; each child appends once."""
    with Store.open(tmp_path / "store", create=True) as store:
        rollout_id, stop, counts = new_rollout_id(), threading.Event(), [0] * 4

        def write(index: int) -> None:
            while not stop.is_set():
                store.append(rollout_id, make_span([index, counts[index]], [1]))
                counts[index] += 1

        threads = [threading.Thread(target=write, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(50):
                pid = in_child(lambda: (signal.alarm(20), store.append(rollout_id, make_span([99], [2]))))
                assert os.waitpid(pid, 0)[1] == 0
        finally:
            stop.set()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        spans = store.rollout(rollout_id).spans
    assert sum(span.prompt_ids[0] == 99 for span in spans if span.prompt_ids) == 50
    assert len(spans) == 50 + sum(counts)
    assert check(tmp_path / "store") == []


def test_a_pool_of_forked_workers_writes(tmp_path: Path) -> None:
    """multiprocessing's fork with work handed on: a parent's handle is inherited by workers of workers."""
    store = Store.open(tmp_path / "store", create=True)
    rollout_id = new_rollout_id()
    store.append(rollout_id, make_span())

    def work() -> None:
        store.append(rollout_id, make_span())
        os.waitpid(in_child(lambda: store.append(rollout_id, make_span())), 0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(20)
    assert process.exitcode == 0
    assert store.rollout(rollout_id).calls == 3
    store.close()


def test_threads_that_open_at_once_share_one_handle(tmp_path: Path) -> None:
    """16 threads open, append and close the same path again and again."""
    Store.open(tmp_path / "store", create=True).close()
    rollout_id = new_rollout_id()

    def work(_: int) -> None:
        for _ in range(20):
            with Store.open(tmp_path / "store", create=True) as store:
                store.append(rollout_id, make_span())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    with Store.open(tmp_path / "store") as store:
        assert store.rollout(rollout_id).calls == 320
    assert check(tmp_path / "store") == []


def test_an_append_from_within_an_append_is_not_lost(tmp_path: Path) -> None:
    """A finaliser that the collector runs, or a signal handler, in the middle of a write: no deadlock, both kept."""
    with Store.open(tmp_path / "store", create=True) as store:
        rollout_id = new_rollout_id()

        class Stream:
            def __del__(self) -> None:
                store.append(rollout_id, make_span(started_at=2.0))
                assert store.rollout_ids() == [rollout_id]

        def collected(txn) -> None:
            Stream()
            gc.collect()

        signal.signal(signal.SIGALRM, lambda *_: pytest.fail("deadlock"))
        signal.alarm(20)
        store.append(rollout_id, make_span(started_at=1.0))
        store.environment.write(collected)
        store.environment.read(collected)
        store.append(rollout_id, make_span(started_at=3.0))
        signal.alarm(0)
        assert [span.started_at for span in store.rollout(rollout_id).spans] == [1.0, 2.0, 2.0, 3.0]


def test_the_map_grows_with_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 1 MiB to what 8 MB of ids need; a single span larger than the map is no exception."""
    monkeypatch.setattr(environment, "INITIAL_MAP", 1 << 20)
    with Store.open(tmp_path / "store", create=True) as store:
        rollout_id = new_rollout_id()
        for number in range(4):
            store.append(rollout_id, make_span(list(range(number, number + 500_000)), started_at=float(number)))
        for span, number in zip(store.rollout(rollout_id).spans, range(4), strict=True):
            assert sum(span.prompt_ids or ()) == sum(range(number, number + 500_000))
    assert check(tmp_path / "store") == []


def test_a_map_grown_by_one_process_is_adopted_by_the_others(tmp_path: Path) -> None:
    """Two processes with small maps write 4 MB each in turns of their own; a third, idle one then reads and writes."""
    source = """
import sys
from agentlight_store import Store, environment
from spans import make_span
environment.INITIAL_MAP = 1 << 20
store = Store.open(sys.argv[1], create=True)
for number in range(100):
    store.append(sys.argv[2] * 16, make_span([int(sys.argv[2], 16), number] * 5000))
"""
    idle = """
import sys
from agentlight_store import Store, environment
from spans import make_span
environment.INITIAL_MAP = 1 << 20
store = Store.open(sys.argv[1], create=True)
print("open", flush=True)
input()
assert [rollout.calls for rollout in store.rollouts()] == [100, 100]
store.append("cc" * 16, make_span())
"""
    path = str(tmp_path / "store")
    command = [sys.executable, "-c", idle, path]
    waiting = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": TESTS}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert waiting.stdout is not None and waiting.stdout.readline() == "open\n"
    writers = [spawn(source, path, name) for name in ("aa", "bb")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    waiting.communicate("go\n", timeout=30)
    assert waiting.returncode == 0
    with Store.open(path) as store:
        assert [rollout.calls for rollout in store.rollouts()] == [100, 100, 1]
    assert check(path) == []


def test_killed_readers_do_not_use_up_the_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 readers die in the middle of a transaction of a store with 8 slots; the next one reads."""
    monkeypatch.setattr(environment, "MAX_READERS", 8)
    store = Store.open(tmp_path / "store", create=True)
    store.append(new_rollout_id(), make_span())

    def die() -> None:
        store.environment.read(lambda txn: os.kill(os.getpid(), 9))

    for _ in range(40):
        assert os.waitpid(in_child(die), 0)[1] == signal.SIGKILL
    assert len(list(store.rollouts())) == 1
    store.close()
