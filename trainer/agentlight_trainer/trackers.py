"""Where else the metrics of each step go: a library a name, which is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from agentlight_trainer.errors import SettingError

Log = Callable[[int, dict[str, float]], None]


def tensorboard(output: Path, settings: dict[str, Any]) -> Log:
    writer = import_module("torch.utils.tensorboard").SummaryWriter(str(output / "tensorboard"))

    def log(step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log


def wandb(output: Path, settings: dict[str, Any]) -> Log:
    run = import_module("wandb").init(project="agentlight", dir=str(output), config=settings)
    return lambda step, metrics: run.log(metrics, step=step)


def trackio(output: Path, settings: dict[str, Any]) -> Log:
    library = import_module("trackio")
    library.init(project="agentlight", config=settings)
    return lambda step, metrics: library.log(metrics, step=step)


TRACKERS: dict[str, Callable[[Path, dict[str, Any]], Log]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
    "trackio": trackio,
}


def trackers(names: tuple[str, ...], output: Path, settings: dict[str, Any]) -> list[Log]:
    """Raises SettingError for a name that is none, and for a library that is not installed."""
    made = []
    for name in names:
        if name not in TRACKERS:
            raise SettingError(f"--log-to {name}: known are {', '.join(TRACKERS)}")
        try:
            made.append(TRACKERS[name](output, settings))
        except ImportError as error:
            raise SettingError(
                f"--log-to {name} needs a library that is not there ({error}): pip install {name}"
            ) from None
    return made
