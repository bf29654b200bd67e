"""Collect, train, publish, and again: each round on its own rollouts, from where the round before it ended."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentlight_store import Store
from agentlight_trainer import checkpoint, progress
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.errors import SettingError, TrainerError
from agentlight_trainer.publish import base_of
from agentlight_trainer.train import Result, check_settings, train

LAUNCHER = "agentlight-run"


@dataclass
class Round:
    """What one round has made; round 0 is the measurement before the first."""

    number: int
    reward: float | None = None  # mean over the rollouts that it trained on
    measured: float | None = None  # mean over those of --evaluate, with the weights at its end
    by_task: dict[str, float] = field(default_factory=dict)  # of --evaluate
    adapter: str | None = None
    served: str | None = None  # the adapter's name on the server
    seconds: dict[str, float] = field(default_factory=dict)  # by what they were spent on


def run_rounds(config: TrainConfig) -> tuple[Result, list[Round]]:
    """Returns what the last round made, and all rounds. Raises an AgentlightError; --resume goes on from there."""
    check_settings(config)
    _check_commands(config)
    output = Path(config.output)
    output.mkdir(parents=True, exist_ok=True)
    log = output / "rounds.jsonl"
    done = (
        [Round(**json.loads(line)) for line in log.read_text().splitlines()] if config.resume and log.exists() else []
    )
    if not config.resume:
        log.unlink(missing_ok=True)
    if config.evaluate and not done:
        first = Round(0, adapter=config.adapter)
        progress.say("round 0: before", style="bold")
        _measure(config, first, output / "round-0")
        _keep(log, done, first)
    result: Result | None = None
    for number in range(len([one for one in done if one.number]) + 1, config.rounds + 1):
        progress.say(f"round {number} of {config.rounds}", style="bold")
        result = _round(config, number, done, output / f"round-{number}", log)
    if result is None:
        raise TrainerError(f"all {config.rounds} rounds in {output} are done; --rounds {config.rounds + 1} adds one")
    final = output / "adapter"
    assert result.weights is not None
    adapter = result.weights

    def copy(folder: Path) -> None:
        shutil.copytree(adapter, folder)

    checkpoint.write(final, copy)
    from agentlight_trainer.report import write_rounds

    report = write_rounds(output / "report.html", done)
    return replace(result, weights=final, report=report), done


def _round(config: TrainConfig, number: int, done: list[Round], folder: Path, log: Path) -> Result:
    before = done[-1] if done else Round(0, adapter=config.adapter)
    one = Round(number)
    store = folder / "store"
    with _timed(one, "collect"):
        _run(config, config.collect or "", store, before)
    replayed = [
        str(folder.with_name(f"round-{earlier}") / "store") for earlier in range(number - config.replay, number)
    ]
    stores = tuple(path for path in [*replayed, str(store)] if Path(path).is_dir())
    with _timed(one, "train"):
        resume = config.resume and (folder / "checkpoints").is_dir()
        own = replace(
            config, stores=stores, output=str(folder), adapter=before.adapter or "none", resume=resume,
            rounds=1, collect=None, evaluate=None, replay=0,
        )  # fmt: skip
        result = train(own)
    one.reward, one.served = result.reward, result.published[0] if result.published else None
    # The published copy: later runs leave it alone, and what it will answer is traced to it.
    one.adapter = str((folder / "published" / one.served if one.served else Path(str(result.weights))).resolve())
    _measure(config, one, folder)
    _keep(log, done, one)
    return result


def _keep(log: Path, done: list[Round], one: Round) -> None:
    done.append(one)
    with log.open("a") as file:
        file.write(json.dumps(vars(one)) + "\n")


def _measure(config: TrainConfig, one: Round, folder: Path) -> None:
    if config.evaluate is None:
        return
    store = folder / "evaluation"
    with _timed(one, "measure"):
        _run(config, config.evaluate, store, one)
    rewards: dict[str, list[float]] = {}
    for rollout in Store.open(store).rollouts():
        value = rollout.rewards.get(config.reward_name) if config.reward_name else rollout.reward
        if value is not None and math.isfinite(value):
            rewards.setdefault(rollout.task_id or rollout.rollout_id, []).append(value)
    if not rewards:
        raise TrainerError(f"no rollout in {store} was scored: --evaluate needs a --reward")
    one.by_task = {task: sum(values) / len(values) for task, values in rewards.items()}
    every = [value for values in rewards.values() for value in values]
    one.measured = sum(every) / len(every)
    progress.say(
        f"measured: mean reward {one.measured:.3f} over {len(every)} rollouts of {len(rewards)} tasks", style="green"
    )


def _check_commands(config: TrainConfig) -> None:
    for flag, command in (("--collect", config.collect), ("--evaluate", config.evaluate)):
        if command is None:
            continue
        words = shlex.split(command)
        if not words or Path(words[0]).name != LAUNCHER:
            raise SettingError(f"{flag} is an {LAUNCHER} command, not {command!r}")
        given = [word for word in words if word in ("--store", "--policy", "--policy-model", "--adapter", "--resume")]
        if given:
            raise SettingError(f"{flag}: {given[0]} is given by the round itself; leave it out")
        if "--serve" not in words and not config.publish:
            raise SettingError(f"{flag} needs --serve MODEL in it, or --publish URL for a server that is there already")
    if config.stores:
        raise SettingError(
            "--collect makes the stores; leave out STORE (--replay N trains on those of earlier rounds too)"
        )


def _run(config: TrainConfig, command: str, store: Path, weights: Round) -> None:
    """The launcher's command, with the store and the weights of the round put in."""
    launcher, *words = shlex.split(command)
    beside = Path(sys.executable).with_name(LAUNCHER)
    launcher = str(beside) if launcher == LAUNCHER and beside.exists() else launcher
    given = ["--store", str(store)]
    if "--serve" in words:
        adapter = weights.adapter if weights.adapter not in (None, "none") else None
        given += ["--adapter", str(adapter)] if adapter else []
    else:
        given += ["--policy", config.publish[0], "--policy-model", weights.served or base_of(config.publish[0])]
    if config.resume and store.is_dir() and "--tasks" in words:
        given.append("--resume")
    elif store.is_dir():
        shutil.rmtree(store)  # of a round that was not finished
    full = [launcher, *given, *words]
    progress.say("$ " + shlex.join(full), style="dim")
    child = subprocess.Popen(full, env=os.environ)
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    if status:
        raise TrainerError(f"{shlex.join(full[:1])} ended with status {status}; --resume goes on with this round")


@contextmanager
def _timed(one: Round, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    one.seconds[what] = one.seconds.get(what, 0.0) + time.monotonic() - began


def plot(rounds: list[Round], width: int = 40) -> list[str]:
    """A bar a round, of what was measured (else of the reward it trained on)."""
    values = {one.number: one.reward if one.measured is None else one.measured for one in rounds}
    known = {number: value for number, value in values.items() if value is not None}
    if not known:
        return []
    top = max(max(known.values()), 1e-9)
    lines = ["held-out reward by round" if rounds[-1].measured is not None else "training reward by round"]
    for number, value in known.items():
        bar = "█" * round(max(0.0, value) / top * width)
        lines.append(f"  {'before' if number == 0 else f'round {number}':8} {bar:{width}} {value:.3f}")
    return lines
