"""Calls a second that many processes commit to one store, each through the store's own API; and one process alone.

A call is a span of about 2 KB on disk: a question, a completion of 60 tokens with ids and log-probs, its settings.
Each process writes rollouts of five calls, turn by turn, and every call is committed before the next begins. What has
arrived is counted and checked at the end. LMDB lets one process write at a time: the sum over the processes is bounded
by what one commit takes, and by the cores that prepare the records meanwhile.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from array import array
from typing import Any

from agentlight_store import Choice, Span, Store, new_rollout_id
from agentlight_store.check import check

TOKENS = 60
TURNS = 5
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_tokens": 512, "logprobs_mode": "processed"}


def conversation(seed: int) -> list[Span]:
    """The calls of one rollout: each prompt is the one before and its completion, and something new."""
    messages: list[Any] = [{"role": "system", "content": "You answer questions about a database. " * 8}]
    prompt, spans = list(range(100)), []
    for turn in range(TURNS):
        messages = [*messages, {"role": "user", "content": f"question {seed} of turn {turn}: " + "what of it? " * 10}]
        prompt = prompt + [(seed + turn + position) % 49152 for position in range(40)]
        ids = [(seed * 31 + turn * 7 + position * 13) % 49152 for position in range(TOKENS)]
        text = f"answer {seed}.{turn} " + "of words " * 25
        choice = Choice(0, text, None, "stop", array("I", ids), array("f", [-0.125] * TOKENS))
        spans.append(
            Span(
                pid=os.getpid(),
                dialect="openai_chat",
                server="127.0.0.1:8000",
                model="policy",
                model_root="base",
                messages=messages,
                prompt_ids=array("I", prompt),
                choices=[choice],
                sampling=SAMPLING,
                trainable=True,
                usage={"input_tokens": len(prompt), "output_tokens": TOKENS},
                http_status=200,
            )
        )
        messages = [*messages, {"role": "assistant", "content": text}]
        prompt = prompt + ids
    return spans


def write(path: str, number: int, calls: int, ready: Any, start: Any, ended: Any) -> None:
    store = Store.open(path)
    rollouts = [conversation(number * 100_000 + seed) for seed in range(-(-calls // TURNS))]
    ready.release()
    start.wait()
    for spans in rollouts:
        rollout_id = new_rollout_id()
        for span in spans:
            span.started_at = time.time()
            span.ended_at = span.started_at + 1
            store.append(rollout_id, span)
    ended[number] = time.perf_counter()  # the same clock in all processes; their own end is not counted


def seconds(processes: int, calls: int) -> tuple[float, int]:
    """Wall-clock for `calls` calls a process, and the bytes that one took on disk; checks that all have arrived."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as path:
        ready, start, ended = context.Semaphore(0), context.Event(), context.Array("d", processes)
        with Store.open(path, create=True) as store:
            shared = (ready, start, ended)
            workers = [
                context.Process(target=write, args=(path, number, calls, *shared)) for number in range(processes)
            ]
            [worker.start() for worker in workers]
            [ready.acquire() for _ in workers]
            began = time.perf_counter()
            start.set()
            [worker.join() for worker in workers]
            took = max(ended[:]) - began
            found = sum(rollout.calls for rollout in store.rollouts())
            pages = store.environment.read(lambda txn: txn.stat())
        assert found == processes * calls and check(path) == [], f"{found} of {processes * calls} calls arrived"
        used = (pages["leaf_pages"] + pages["overflow_pages"] + pages["branch_pages"]) * pages["psize"]
        return took, used // found


def main() -> None:
    parser = argparse.ArgumentParser(description="calls committed a second")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--calls", type=int, default=2000, help="of each process, a multiple of 5 (default 2000)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores; each figure is the median of {options.rounds} rounds")
    for processes in (1, options.processes):
        calls = options.calls * (1 if processes > 1 else 4)
        rounds = [seconds(processes, calls) for _ in range(options.rounds)]
        rate = statistics.median(processes * calls / took for took, _ in rounds)
        used = f"{rounds[0][1] / 1000:.1f} KB a call on disk"
        name = f"{processes} process" + ("es" if processes > 1 else "")
        print(f"{name:<14} {rate:10,.0f} calls/s   {rate / min(processes, cores):10,.0f} a core   {used}")


if __name__ == "__main__":
    main()
