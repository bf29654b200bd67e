"""Many agents at once, and many rollouts in one: nothing is lost, and no call is in another's rollout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_server import FakeServer

from agentlight_store import Store
from agentlight_store.check import check

AGENTS = 200
CALLS = 4
# urllib alone: two hundred processes that import an SDK would measure this machine's patience.
AGENT = """
import json, os, sys, urllib.request

url, task = sys.argv[1:]
messages = []
for turn in range(int(os.environ["CALLS"])):
    messages.append({"role": "user", "content": f"{task}/{turn} by {os.getpid()}"})
    body = json.dumps({"model": "smol+words=3", "messages": messages, "stream": bool(turn % 2)}).encode()
    request = urllib.request.Request(url + "/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=200) as reply:
        text = reply.read()
    messages.append({"role": "assistant", "content": str(len(text))})
"""


@pytest.mark.slow
def test_two_hundred_agents_at_once_lose_and_mix_nothing(tmp_path: Path, server: FakeServer) -> None:
    """200 processes of 4 calls each: the store holds the server's 800 requests, those of a task in its rollout."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"id": "task-{number}"}}\n' for number in range(AGENTS)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTLIGHT_")}
    launcher = Path(sys.executable).with_name("agentlight-run")
    options = ["--tasks", "tasks.jsonl", "--jobs", str(AGENTS), "--strict"]
    run = subprocess.run(
        [launcher, *options, sys.executable, "agent.py", server.url, "{id}"],
        env=environment | {"CALLS": str(CALLS)}, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert f"{AGENTS * CALLS} calls" in run.stderr and f"{AGENTS} rollouts, unscored" in run.stderr
    with Store.open(tmp_path / "store") as store:
        rollouts = list(store.rollouts())
    assert check(tmp_path / "store") == []
    recorded = []
    for rollout in rollouts:
        assert len({span.pid for span in rollout.spans}) == 1
        for turn, span in enumerate(rollout.spans):
            assert span.messages[-1]["content"] == f"{rollout.task_id}/{turn} by {span.pid}"
            recorded.append((span.messages, list(span.prompt_ids or ()), list(span.completion_ids or ())))
    served = [(call.json["messages"], call.prompt_ids, call.choices[0].ids) for call in server.calls]
    assert len(recorded) == len(served) == AGENTS * CALLS
    assert sorted(map(json.dumps, recorded)) == sorted(map(json.dumps, served))


@pytest.mark.slow
def test_agents_that_are_killed_lose_no_answered_call(tmp_path: Path, server: FakeServer) -> None:
    """Of 20 agents, killed while they ask on and on, each call whose reply the agent has printed is in the store."""
    agent = AGENT.replace("text = reply.read()", "text = reply.read()\n    print(f'{task}/{turn}', flush=True)")
    (tmp_path / "agent.py").write_text(agent)
    launcher = Path(sys.executable).with_name("agentlight-run")
    command = [launcher, "--store", tmp_path / "store", sys.executable, tmp_path / "agent.py", server.url]
    environment = os.environ | {"CALLS": "1000"}
    running = [
        subprocess.Popen(
            [*command, f"task-{number}"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )
        for number in range(20)
    ]  # fmt: skip
    said: list[str] = []
    for process in running:
        assert process.stdout is not None
        said += [process.stdout.readline().strip() for _ in range(3)]
        os.killpg(process.pid, 9)
        said += [line.strip() for line in process.stdout.read().splitlines() if line]
        process.wait()
    with Store.open(tmp_path / "store") as store:
        asked = [span.messages[-1]["content"] for rollout in store.rollouts() for span in rollout.spans]
    assert check(tmp_path / "store") == []
    assert {line for line in said if "/" in line} <= {text.partition(" by ")[0] for text in asked}
    assert len(said) >= 60 and len(asked) <= len(server.calls)


@pytest.mark.slow
def test_a_thousand_rollouts_in_one_process_lose_and_mix_nothing(tmp_path: Path, server: FakeServer) -> None:
    """1,000 asyncio rollouts of 2 calls over aiohttp, half of them streams: the server's log, call by call."""
    (tmp_path / "agent.py").write_text("""
import aiohttp, asyncio, sys

async def one(session, number):
    for turn in range(2):
        body = {"model": "smol+words=3", "messages": [{"role": "user", "content": f"{number}/{turn}"}]}
        async with session.post(sys.argv[1] + "/chat/completions", json=body | {"stream": bool(number % 2)}) as reply:
            await reply.read()

async def main():
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        await asyncio.gather(*[one(session, number) for number in range(1000)])

asyncio.run(main())
""")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTLIGHT_")}
    launcher = Path(sys.executable).with_name("agentlight-run")
    command = [launcher, "--strict", "--rollout", "agent:one", sys.executable, "agent.py", server.url]
    run = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0 and "2,000 calls" in run.stderr, run.stderr[-2000:]
    with Store.open(tmp_path / "store") as store:
        rollouts = list(store.rollouts())
    assert len(rollouts) == 1000
    recorded = []
    for rollout in rollouts:
        numbers, turns = zip(*(span.messages[0]["content"].split("/") for span in rollout.spans), strict=True)
        assert len(set(numbers)) == 1 and turns == ("0", "1")
        recorded += [(span.messages, list(span.completion_ids or ())) for span in rollout.spans]
    served = [(call.json["messages"], call.choices[0].ids) for call in server.calls]
    assert sorted(map(json.dumps, recorded)) == sorted(map(json.dumps, served))
