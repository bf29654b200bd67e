"""Options of how calls are recorded: from a thread, and timed."""

from __future__ import annotations

import re
import sys
from typing import Any

from fake_server import FakeServer

from agentlight_store import Store

AGENT = """
import httpx, multiprocessing, os, sys, threading
def ask(text):
    body = {"model": "gpt", "messages": [{"role": "user", "content": text}]}
    httpx.post(sys.argv[1] + "/chat/completions", json=body)
def in_threads(name):
    threads = [threading.Thread(target=ask, args=(f"{name} {number}",)) for number in range(5)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
if __name__ == "__main__":
    ask("first")
    in_threads("thread")
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=in_threads, args=(method,))
        child.start()
        child.join()
    ask("last")
"""


def test_calls_committed_by_a_thread_are_all_there_when_processes_end(
    launch: Any, script: Any, server: FakeServer
) -> None:
    """1 + 5 by threads + 5 by a forked and 5 by a spawned process + 1 = 17; the queue's gauge is said."""
    run = launch("--async-data-upload", sys.executable, script(AGENT), server.url)
    assert run.returncode == 0 and "17 calls" in run.stderr, run.stderr
    assert re.search(r"at most \d+ calls? waited to be committed \(1,000 may\)", run.stderr)
    (rollout,) = Store.open(run.store).rollouts()
    said = sorted(span.messages[0]["content"] for span in rollout.spans)
    groups = [f"{name} {number}" for name in ("fork", "spawn", "thread") for number in range(5)]
    assert said == sorted(["first", "last", *groups])


def test_a_full_queue_makes_the_call_commit_itself(launch: Any, script: Any, server: FakeServer) -> None:
    """With room for 2, all 17 calls are recorded all the same, and no more than 2 have waited."""
    agent = "import agentlight_instrumentation.writer as writer; writer.LIMIT = 2\n" + AGENT
    run = launch("--async-data-upload", sys.executable, script(agent), server.url)
    assert "17 calls" in run.stderr
    assert int(re.findall(r"at most (\d+) calls? waited", run.stderr)[0]) <= 2


def test_profile_says_where_the_time_went(launch: Any, script: Any, server: FakeServer) -> None:
    """Each of the 17 calls is recognised, planned, made a record and committed once, in three processes."""
    run = launch("--profile", sys.executable, script(AGENT), server.url)
    lines = re.findall(r"profile: (.+?) +([\d,]+) times +([\d.,]+) ms", run.stderr)
    times = {part: int(count) for part, count, _ in lines}
    assert "17 calls" in run.stderr and times["commit it"] == 17, run.stderr
    assert times["recognise a request"] >= 17 and times["follow a reply"] >= 17
    assert times["patch a library"] >= 2  # once in the agent, once in the spawned process
