"""Checkpoints: written aside, synced, named last; the newest complete one of this run is found again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from agentlight_trainer import ranks
from agentlight_trainer.errors import TrainerError
from agentlight_trainer.policy import Policy

MARKER = "COMPLETE"  # written last: the digests of the other files
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    step: int


def save(folder: Path, policy: Policy, step: int, fingerprint: str) -> None:
    """Keep the weights that are trained, the optimizer, the schedule, the random state, and the step.

    Raises TrainerError when the disk does not take it; the checkpoints before stay.
    """
    if ranks.is_first():
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".step-*"):
            shutil.rmtree(left, ignore_errors=True)  # of a run that was killed
        aside = folder / f".step-{step:06d}.{os.getpid()}"
        try:
            aside.mkdir()
            _fill(aside, policy, step, fingerprint)
            replace(aside, folder / f"step-{step:06d}")
        except (OSError, SafetensorError, RuntimeError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise TrainerError(
                f"the checkpoint of step {step} cannot be written to {folder}: {error}; make room, and --resume goes "
                "on from the one before"
            ) from None
        for old in sorted(folder.glob("step-*"))[:-KEPT]:
            shutil.rmtree(old)
    ranks.meet()


def _fill(aside: Path, policy: Policy, step: int, fingerprint: str) -> None:
    save_file(
        {name: weight.contiguous() for name, weight in policy.weights().items()},
        aside / "weights.safetensors",
    )
    state = {
        "optimizer": policy.optimizer.state_dict(),
        "scheduler": policy.scheduler.state_dict(),
        "random": torch.get_rng_state(),
    }
    torch.save(state, aside / "optimizer.pt")
    (aside / "run.json").write_text(json.dumps({"step": step, "fingerprint": fingerprint}))
    digests = {path.name: _digest(path) for path in sorted(aside.iterdir())}
    (aside / MARKER).write_text(json.dumps(digests))


def save_weights(path: Path, policy: Policy) -> None:
    """The trained weights alone, in one file that is whole or not there."""
    if ranks.is_first():
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        save_file({name: weight.contiguous() for name, weight in policy.weights().items()}, aside)
        _sync(aside)
        aside.rename(path)
    ranks.meet()


def load_weights(path: Path, policy: Policy) -> None:
    policy.set_weights(load_file(path))


def write(final: Path, save: Callable[[Path], None]) -> None:
    """Have `save` fill a folder aside, and give it its name. Raises TrainerError when the disk does not take it."""
    aside = final.with_name(f".{final.name}.new")
    try:
        save(aside)
        replace(aside, final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise TrainerError(f"cannot write {final}: {error}; --resume goes on from the last checkpoint") from None


def newest(folder: Path, fingerprint: str) -> tuple[Checkpoint | None, list[str]]:
    """The newest complete checkpoint of the run with this fingerprint, and why newer ones were passed over."""
    passed_over = []
    for path in sorted(folder.glob("step-*"), reverse=True):
        reason = _fault(path)
        if reason is None:
            run = json.loads((path / "run.json").read_text())
            if run["fingerprint"] == fingerprint:
                return Checkpoint(path, run["step"]), passed_over
            reason = "is of other rollouts or other settings"
        passed_over.append(f"{path} {reason}")
    return None, passed_over


def restore(checkpoint: Checkpoint, policy: Policy) -> None:
    policy.set_weights(load_file(checkpoint.path / "weights.safetensors"))
    state: dict[str, Any] = torch.load(checkpoint.path / "optimizer.pt", weights_only=True)
    policy.optimizer.load_state_dict(state["optimizer"])
    policy.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["random"])


def replace(aside: Path, final: Path) -> None:
    """Give a folder that was written aside its name; a reader finds the old one or the new one, whole."""
    for path in [*aside.rglob("*"), aside]:
        _sync(path)
    old = final.with_name(f".{final.name}.{os.getpid()}.old")
    if final.exists():
        final.rename(old)
    aside.rename(final)
    _sync(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def _fault(path: Path) -> str | None:
    try:
        digests: dict[str, str] = json.loads((path / MARKER).read_text())
    except (OSError, ValueError):
        return "was not finished"
    for name, digest in digests.items():
        if not (path / name).is_file() or _digest(path / name) != digest:
            return f"is damaged ({name})"
    return None


def _digest(path: Path) -> str:
    made = hashlib.blake2b()  # file_digest() came with Python 3.11
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            made.update(block)
    return made.hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
