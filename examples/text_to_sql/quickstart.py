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
from typing import Any

from rich.console import Console
from rich.table import Table

from agentlight_run.serving import serve
from agentlight_store.errors import AgentlightError

ROUNDS = 2  # a third learns the training questions by heart
TRAIN_SAMPLES = 10  # rollouts of each training question and round
HELDOUT_SAMPLES = 4  # rollouts of each held-out question and measurement
LORA_RANK = 8  # half the default: vLLM's CPU build copies a whole adapter for every token
TRAINING = {
    "--lora-rank": LORA_RANK,
    "--learning-rate": 5e-4,  # over twice the default: two rounds are few
    "--rollouts-per-step": 16,  # more and smaller steps than the default
    "--aggregation": "rollout_mean",  # a short right answer weighs as much as a long wrong one
}
JOBS = 12  # agents at a time: enough to keep vLLM's batches full
TIMEOUT = 120  # seconds for one rollout

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("examples", "text_to_sql")  # from ROOT, where every command runs and can be repeated by hand
WORK = Path(".quickstart")
MODEL = WORK / "SmolLM2-135M-Instruct"
OUTPUT = WORK / "out"
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
        improve(rounds)
    except subprocess.CalledProcessError as error:
        print(f"quickstart: {shlex.join(error.cmd[:1])} ended with status {error.returncode}", file=sys.stderr)
        return 1
    except AgentlightError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("quickstart: interrupted; what was collected is in .quickstart", file=sys.stderr)
        return 130
    return conclude([json.loads(line) for line in (OUTPUT / "rounds.jsonl").read_text().splitlines()])


def clean() -> None:
    old = [path for path in WORK.glob("*") if path != MODEL]
    if old:
        print(f"quickstart: starting afresh, {WORK} of an earlier run is removed (the model is kept)")
    for path in old:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def improve(rounds: int) -> None:
    """Make the model, serve it, and have it measured, collected with, trained and measured again."""
    if not MODEL.exists():
        heading("The model: SmolLM2-135M-Instruct, from PyPI")
        with timed("make the model"):
            WORK.mkdir(exist_ok=True)
            run(sys.executable, HERE / "make_model.py", MODEL)
    heading("A policy server")
    started = time.monotonic()
    with serve(str(MODEL), log=WORK / "serve.log", lora_rank=LORA_RANK) as policy:
        seconds["start vLLM"] = time.monotonic() - started
        heading(f"{rounds} rounds: collect, train, publish, measure")
        flags = [word for flag in TRAINING.items() for word in flag]
        commands = ["--collect", command("train", TRAIN_SAMPLES), "--evaluate", command("heldout", HELDOUT_SAMPLES)]
        run(
            BIN / "agentlight-train", "--rounds", rounds, *commands, *flags, "--publish", policy.url, "--output", OUTPUT
        )


def command(questions: str, samples: int) -> str:
    """What lets the agent answer each question several times."""
    to_run = ["agentlight-run", "--tasks", HERE / f"{questions}.jsonl", "--samples", samples, "--jobs", JOBS]
    scored = ["--timeout", TIMEOUT, "--reward", "reward:score"]
    agent = [os.path.relpath(sys.executable), HERE / "agent.py", "--question", "{question}", "--expected-sql", "{sql}"]
    return " ".join(map(str, [*to_run, *scored, *agent]))  # no word of it has a space


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


def conclude(rounds: list[dict[str, Any]]) -> int:
    for one in rounds:
        for what, spent in one["seconds"].items():
            seconds[what] = seconds.get(what, 0.0) + spent
    heading("Where the time went")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for what, spent in [*seconds.items(), ("total", sum(seconds.values()))]:
        table.add_row(what, f"{spent:.0f} s")
    console.print(table)
    heading("Result")
    before, after = rounds[0]["measured"], rounds[-1]["measured"]
    print(f"held-out reward: {before:.2f} before, {after:.2f} after")
    print(f"report: {OUTPUT / 'report.html'}")
    if after <= before:
        print("quickstart: the held-out reward did not rise", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
