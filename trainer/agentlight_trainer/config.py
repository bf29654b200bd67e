"""Every setting of a training run: one frozen dataclass, from which the flags are made."""

from __future__ import annotations

import argparse
import sys
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from agentlight_store.config import ConfigError, read_config

LORA_LEARNING_RATE = 2e-4
FULL_LEARNING_RATE = 1e-5


def _flag(default: Any, text: str, **how: Any) -> Any:
    return field(default=default, metadata={"help": text, **how})


@dataclass(frozen=True)
class TrainConfig:
    """One training run. The comment of a field is its help text."""

    stores: tuple[str, ...]
    model: str | None = _flag(None, "base weights (default: what the calls recorded)", metavar="DIR")
    adapter: str | None = _flag(None, "adapter to continue; 'none' starts a new one", metavar="DIR")
    output: str = _flag("./agentlight-out", "folder for everything that is written", metavar="DIR")
    reward_name: str | None = _flag(None, "which reward to train on", metavar="NAME")
    component: str | None = _flag(None, "train this agent role only", metavar="ROLE")
    objective: str = _flag("grpo", "loss function", choices=("grpo",))
    advantage: str = _flag("group", "baseline and scale", choices=("group", "center", "rloo", "batch_std"))
    anchor: str = _flag("decoupled", "what 'old' means in the clip", choices=("decoupled", "bypass"))
    aggregation: str = _flag(
        "token_mean", "how tokens weigh", choices=("token_mean", "rollout_mean", "sequence_mean", "constant")
    )
    epochs: int = _flag(2, "passes over the rollouts")
    rollouts_per_step: int | None = _flag(None, "per optimizer step (default: a quarter, 8 at least)")
    learning_rate: float | None = _flag(None, "default: 2e-4 for an adapter, 1e-5 with --full")
    warmup_steps: int = _flag(0, "steps of linear warm-up")
    gradient_clip: float = _flag(1.0, "largest norm of a step's gradient")
    clip_low: float = _flag(0.2, "how far below 1 the ratio earns")
    clip_high: float = _flag(0.28, "how far above 1 the ratio earns")
    kl: float = _flag(0.0, "weight of the KL to the start")
    lora_rank: int = _flag(16, "rank of a new adapter")
    full: bool = _flag(False, "train every weight, no adapter")
    max_tokens: int = _flag(2048, "distinct tokens in one forward pass")
    dtype: str = _flag("auto", "of the base weights", choices=("auto", "float32", "bfloat16"))
    device: str = _flag("auto", "auto, cpu, cuda, ...")
    seed: int = _flag(0, "of the order and of a new adapter")
    save_every: int = _flag(10, "steps between checkpoints")
    resume: bool = _flag(False, "go on from the newest complete checkpoint")
    publish: str | None = _flag(None, "load the result into this vLLM, and prove it", metavar="URL")
    dry_run: bool = _flag(False, "stop after the pre-flight")
    force: bool = _flag(False, "train although the pre-flight says not to")

    @property
    def learning_rate_used(self) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return FULL_LEARNING_RATE if self.full else LORA_LEARNING_RATE


def parser() -> argparse.ArgumentParser:
    """The command line; its help stays within one screen, which a test holds it to."""
    made = argparse.ArgumentParser(
        prog="agentlight-train",
        usage="%(prog)s STORE... [flags]",
        description="Train the model that the calls in the stores came from (GRPO, offline, token-exact).",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32, width=110),
        allow_abbrev=False,
    )
    made.add_argument("--config", metavar="FILE", help="settings from a YAML file; flags win")
    made.add_argument("stores", nargs="+", metavar="STORE", help="folder written by agentlight-run")
    for setting in fields(TrainConfig):
        if setting.default is not MISSING:
            made.add_argument("--" + setting.name.replace("_", "-"), **_argument(setting))
    return made


def _argument(setting: Any) -> dict[str, Any]:
    how = dict(setting.metadata)
    if setting.default is False:
        return {"action": "store_true", "help": how["help"]}
    kind = next(kind for kind in (int, float, str) if kind.__name__ in setting.type)
    if "choices" not in how:
        how.setdefault("metavar", "X" if kind is float else "N" if kind is int else "NAME")
    else:
        how["metavar"] = "NAME"
        how["help"] += ": " + ", ".join(how["choices"])
    if setting.default not in (None, *how.get("choices", ())):
        how["help"] += f" ({setting.default})"
    return {"type": kind, "default": setting.default, **how}


def parse(argv: list[str] | None = None) -> TrainConfig:
    """Raises ConfigError for a --config file that cannot be used; a usage error ends the process with status 2."""
    made = parser()
    path = made.parse_args(argv).config
    if path is not None:
        flags = [word for name, value in read_config(path, "train").items() for word in _as_flag(path, name, value)]
        # In front: of a flag that is given twice the later one counts.
        argv = [*flags, *(sys.argv[1:] if argv is None else argv)]
    given: dict[str, Any] = vars(made.parse_args(argv))
    del given["config"]
    return TrainConfig(**{**given, "stores": tuple(given["stores"])})


def _as_flag(path: str, name: str, value: Any) -> list[str]:
    if isinstance(value, (list, dict)) or value is None:
        raise ConfigError(f"{path}: {name} is {value!r}; it takes one value")
    return [f"--{name.replace('_', '-')}={value}"]
