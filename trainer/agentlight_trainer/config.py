"""Every setting of a training run: one frozen dataclass, from which the flags are made."""

from __future__ import annotations

import argparse
import sys
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from agentlight_store.config import ConfigError, read_config

LORA_LEARNING_RATE = 2e-4
FULL_LEARNING_RATE = 5e-5
FULL_WARMUP_STEPS = 500  # of a full fine-tune, or a tenth of its steps where it has fewer


def _flag(default: Any, text: str, *, common: bool = False, **how: Any) -> Any:
    """`common` ones are in --help, all are in --help-all."""
    return field(default=default, metadata={"help": text, "common": common, **how})


@dataclass(frozen=True)
class TrainConfig:
    """One training run. The text of a field is its help text."""

    stores: tuple[str, ...]
    model: str | None = _flag(None, "base weights (default: what the calls recorded)", metavar="DIR", common=True)
    adapter: str | None = _flag(None, "adapter to continue; 'none' starts a new one", metavar="DIR", common=True)
    output: str = _flag("./agentlight-out", "folder for everything that is written", metavar="DIR", common=True)
    # -- which rollouts, and what they earn
    reward_name: str | None = _flag(None, "which reward to train on", metavar="NAME", common=True)
    reward_scale: float = _flag(1.0, "factor on every reward")
    component: tuple[str, ...] = _flag(
        (), "train this agent role only; may be given again", metavar="ROLE", common=True
    )
    per_role: bool = _flag(False, "train an adapter for each agent role", common=True)
    validation: float = _flag(0.0, "share of the tasks that are held out, to stop and roll back by", common=True)
    max_turns: int | None = _flag(None, "cut samples after so many turns")
    reconstruct: bool = _flag(False, "render token ids for calls that have none; their ratio is unknown")
    overlong: str | None = _flag(None, "rollouts cut off by length", choices=("keep", "filter"))
    # -- the objective
    objective: str = _flag(
        "grpo", "", common=True,
        choices=("grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "sft"),
    )  # fmt: skip
    advantage: str | None = _flag(
        None, "baseline and scale (default: the objective's)", common=True,
        choices=("group", "center", "rloo", "batch_std", "whiten", "center_whiten", "best"),
    )  # fmt: skip
    min_reward: float | None = _flag(None, "sft: of rollouts with at least this reward (default: best of each group)")
    credit: str = _flag(
        "uniform", "how turns share a return", common=True,
        choices=("uniform", "linear_decay", "discount", "prefix_tree", "turn_rewards"),
    )  # fmt: skip
    gamma: float = _flag(1.0, "discount of a step back (discount, turn_rewards)")
    role_gamma: tuple[str, ...] = _flag((), "the gamma of one role; may be given again", metavar="ROLE=X")
    credit_window: int | None = _flag(None, "train the last so many turns of a rollout only")
    turn_reward: str | None = _flag(None, "the reward that is emitted after turns", metavar="NAME")
    aggregation: str | None = _flag(
        None, "how tokens weigh (default: the objective's)", common=True,
        choices=("token_mean", "rollout_mean", "sequence_mean", "constant"),
    )  # fmt: skip
    length: int = _flag(1024, "tokens by which 'constant' divides a sample")
    anchor: str = _flag("decoupled", "what 'old' means in the ratio", choices=("decoupled", "bypass"), common=True)
    clip_low: float | None = _flag(None, "how far below 1 the ratio earns (0.2; gspo 3e-4)")
    clip_high: float | None = _flag(None, "how far above 1 the ratio earns (0.28; gspo 4e-4)")
    dual_clip: float = _flag(0.0, "bound of a bad token's loss, such as 3 (0: none)")
    cispo_cap: float = _flag(5.0, "cispo: largest ratio")
    correction: str | None = _flag(
        None, "behaviour correction (default: token_tis)",
        choices=("token_tis", "sequence_tis", "sequence_mask", "token_mask", "geometric", "none"),
    )  # fmt: skip
    correction_low: float | None = _flag(None, "smallest behaviour weight, for the masks (0)")
    correction_high: float | None = _flag(None, "largest behaviour weight (2)")
    off_policy_limit: float = _flag(0.0, "drop bad samples with a mean log-ratio beyond it (0: none)")
    kl: float = _flag(0.0, "weight of the KL to the start", common=True)
    # -- the optimizer
    epochs: int = _flag(2, "passes over the rollouts", common=True)
    rollouts_per_step: int | None = _flag(None, "per optimizer step (default: a quarter, 8 at least)", common=True)
    learning_rate: float | None = _flag(None, "default: 2e-4 for an adapter, 5e-5 with --full", common=True)
    warmup_steps: int | None = _flag(None, "steps of linear warm-up (default: 0, with --full 500)")
    gradient_clip: float = _flag(1.0, "largest norm of a step's gradient")
    patience: int = _flag(3, "with --validation: stop when it was worse so many times in a row")
    lora_rank: int = _flag(16, "rank of a new adapter", common=True)
    full: bool = _flag(False, "train every weight, no adapter", common=True)
    merge: bool = _flag(False, "also write the model with the adapter in it")
    # -- the machine
    max_tokens: int = _flag(2048, "distinct tokens in one forward pass", common=True)
    gradient_checkpointing: bool = _flag(False, "compute layers twice to keep less of them")
    dtype: str = _flag("auto", "of the base weights", choices=("auto", "float32", "bfloat16"), common=True)
    device: str = _flag("auto", "auto, cpu, cuda, ...")
    seed: int = _flag(0, "of the order and of a new adapter")
    snapshot_interval: int = _flag(50, "rollouts between checkpoints")
    resume: bool = _flag(False, "go on from the newest complete checkpoint", common=True)
    # -- around it
    publish: tuple[str, ...] = _flag((), "load the result into this vLLM, and prove it", metavar="URL", common=True)
    rounds: int = _flag(1, "collect and train so many times; needs --collect", common=True)
    collect: str | None = _flag(None, "the agentlight-run command of a round", metavar="COMMAND", common=True)
    evaluate: str | None = _flag(None, "one to measure each round with", metavar="COMMAND")
    replay: int = _flag(0, "train on the stores of so many earlier rounds too")
    debug_trace: bool = _flag(False, "write the advantage of every turn to credit.jsonl")
    log_to: tuple[str, ...] = _flag((), "tensorboard, wandb or trackio; may be given again", metavar="NAME")
    max_log_ratio: float = _flag(1.0, "mean |log ratio| beyond which a run is refused")
    dry_run: bool = _flag(False, "stop after the pre-flight", common=True)
    force: bool = _flag(False, "train although the pre-flight says not to", common=True)

    @property
    def learning_rate_used(self) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return FULL_LEARNING_RATE if self.full else LORA_LEARNING_RATE

    def warmup_of(self, steps: int) -> int:
        """Steps of warm-up in a run of so many."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return min(FULL_WARMUP_STEPS, steps // 10) if self.full else 0


def parser(*, every: bool = False) -> argparse.ArgumentParser:
    """The command line; its help stays within one screen, which a test holds it to."""
    made = argparse.ArgumentParser(
        prog="agentlight-train",
        usage="%(prog)s STORE... [flags]",
        description="Train the model that the calls in the stores came from (GRPO, offline, token-exact).",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32, width=100),
        allow_abbrev=False,
    )
    made.add_argument("--help-all", action="store_true", help="every flag" if not every else argparse.SUPPRESS)
    made.add_argument("--config", metavar="FILE", help="settings from a YAML file; flags win")
    made.add_argument("stores", nargs="*", metavar="STORE", help="folder written by agentlight-run")
    for setting in fields(TrainConfig):
        if setting.default is not MISSING:
            made.add_argument("--" + setting.name.replace("_", "-"), **_argument(setting, every))
    return made


def _argument(setting: Any, every: bool) -> dict[str, Any]:
    how = dict(setting.metadata)
    if not (how.pop("common") or every):
        how["help"] = argparse.SUPPRESS
    if setting.default is False:
        return {"action": "store_true", "help": how["help"]}
    kind = next(kind for kind in (int, float, str) if kind.__name__ in setting.type)
    if setting.default == ():
        return {"action": "append", "default": [], "type": str, **how}
    if "choices" not in how:
        how.setdefault("metavar", "X" if kind is float else "N" if kind is int else "NAME")
    else:
        how["metavar"] = "NAME"
        words = ", ".join(how["choices"])
        how["help"] = how["help"] if how["help"] == argparse.SUPPRESS else f"{how['help']}: {words}".lstrip(": ")
    if setting.default not in (None, *how.get("choices", ())) and how["help"] != argparse.SUPPRESS:
        how["help"] += f" ({setting.default})"
    return {"type": kind, "default": setting.default, **how}


def parse(argv: list[str] | None = None) -> TrainConfig:
    """Raises ConfigError for a --config file that cannot be used; a usage error ends the process with status 2."""
    made = parser()
    first = made.parse_args(argv)
    if first.help_all:
        parser(every=True).print_help()
        raise SystemExit(0)
    if first.config is not None:
        flags = [
            word
            for name, value in read_config(first.config, "train").items()
            for word in _as_flags(first.config, name, value)
        ]
        # In front: of a flag that is given twice the later one counts.
        argv = [*flags, *(sys.argv[1:] if argv is None else argv)]
    given: dict[str, Any] = vars(made.parse_args(argv))
    if not given["stores"] and not given["collect"]:
        made.error("no STORE: which rollouts shall be trained on?")
    del given["config"], given["help_all"]
    frozen: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return TrainConfig(**frozen)


def _as_flags(path: str, name: str, value: Any) -> list[str]:
    """A list is a flag given again; a mapping, as of roles, one `NAME=VALUE` an entry; true is a switch."""
    setting = next(setting for setting in fields(TrainConfig) if setting.name == name)
    repeats, flag = setting.default == (), f"--{name.replace('_', '-')}"
    if isinstance(value, dict) and repeats:
        value = [f"{key}={one}" for key, one in value.items()]
    if isinstance(value, bool) and setting.default is False:
        return [flag] if value else []
    if (isinstance(value, (list, dict)) and not repeats) or value is None or isinstance(value, bool):
        raise ConfigError(f"{path}: {name} is {value!r}; it takes one value")
    return [f"{flag}={one}" for one in (value if isinstance(value, list) else [value])]
