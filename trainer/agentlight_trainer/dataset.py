"""Stores -> groups of samples with advantages, and a count of everything that was left out; loads no model."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentlight_store import Rollout, Store
from agentlight_store.headers import FINAL
from agentlight_store.rollout import Reward
from agentlight_trainer.advantages import Group, group_samples, set_advantages
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.credit import Credit
from agentlight_trainer.errors import NothingToTrain, SettingError
from agentlight_trainer.limits import limited
from agentlight_trainer.objectives import objective
from agentlight_trainer.reconstruct import Rebuild, rebuilder
from agentlight_trainer.trajectory import Origin, Trajectories, build

# Of a model's generation_config.json, what vLLM applies to a request that leaves it unset.
SERVER_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass
class Dataset:
    """What the stores hold for this run."""

    trajectories: Trajectories
    groups: list[Group]
    rewards: dict[str, float | None]  # by rollout
    left_out: Counter[str] = field(default_factory=Counter)  # rollouts, by reason
    cuts: Counter[str] = field(default_factory=Counter)  # samples and turns, by why they were cut
    validation: list[Group] = field(default_factory=list)  # of tasks that are held out
    turns: dict[str, int] = field(default_factory=dict)  # by rollout
    credit: Credit = field(default_factory=Credit)

    @property
    def with_signal(self) -> list[Group]:
        return [group for group in self.groups if group.state == "signal"]

    @property
    def scored(self) -> list[float]:
        return [reward for reward in self.rewards.values() if reward is not None]


def read(config: TrainConfig) -> Dataset:
    """Every rollout of the stores. Raises NothingToTrain, with counts, when no group has signal."""
    wanted = objective(config)
    data = Dataset(Trajectories(), [], {}, credit=credit_of(config))
    rebuild: Rebuild = lambda rollout: rollout  # noqa: E731
    if config.reconstruct:
        if config.model is None:
            raise SettingError("--reconstruct needs --model DIR: the calls do not tell which model is to learn")
        rebuild = rebuilder(config.model)
    for path in config.stores:
        store = Store.open(path)
        for rollout in store.rollouts():
            if rollout.rollout_id not in data.rewards:  # else the same store was given twice, or a copy of it
                _add(data, rebuild(rollout), store.rewards(rollout.rollout_id), config)
    samples = limited(
        data.trajectories.samples, data.cuts,
        max_turns=config.max_turns, credit_window=config.credit_window, overlong=wanted.overlong,
    )  # fmt: skip
    groups = group_samples(samples, data.rewards)
    data.validation = [group for group in groups if _is_held_out(group.key, config)]
    data.groups = [group for group in groups if not _is_held_out(group.key, config)]
    for part in (data.groups, data.validation):
        set_advantages(part, wanted.advantage, config.min_reward)
    for group in data.groups:
        if group.state not in ("signal", "unscored"):
            data.left_out[f"in a group with {group.state}"] += len(group.rewards)
    if not data.with_signal:
        raise NothingToTrain(_nothing(data, config))
    return data


def _add(data: Dataset, rollout: Rollout, recorded: list[Reward], config: TrainConfig) -> None:
    made = build(rollout, components=config.component, defaults=_defaults(config.model))
    data.trajectories.add(made)
    reward, reason = reward_of(rollout, config.reward_name)
    if config.turn_reward is not None:
        each = rewards_of_turns(rollout, recorded, config)
        data.credit.turn_rewards[rollout.rollout_id] = each
        reward, reason = (sum(each), None) if each else (reward, reason)
    else:
        reward = None if reward is None else reward * config.reward_scale
    data.rewards[rollout.rollout_id] = reward
    data.turns[rollout.rollout_id] = made.used
    if not made.samples:
        data.left_out["no usable call"] += 1
    elif reason:
        data.left_out[reason] += 1


def credit_of(config: TrainConfig) -> Credit:
    """Raises SettingError for a --role-gamma that is none."""
    gammas = {}
    for word in config.role_gamma:
        role, _, number = word.rpartition("=")
        try:
            gammas[role] = float(number)
        except ValueError:
            gammas[role] = math.nan
        if not role or not 0 <= gammas[role] <= 1:
            raise SettingError(f"--role-gamma {word} is not ROLE=X with X from 0 to 1")
    return Credit(config.credit, config.gamma, gammas)


def rewards_of_turns(rollout: Rollout, recorded: list[Reward], config: TrainConfig) -> list[float]:
    """One a call that got a reply: what was emitted under --turn-reward after it and before the next one began.

    The rollout's own reward, if it has one of another name, falls on its last call.
    """
    replied = [span for span in rollout.spans if span.status == "ok"]
    each = [0.0] * len(replied)
    for reward in recorded:
        if reward.name == config.turn_reward and math.isfinite(reward.value) and replied:
            before = [number for number, span in enumerate(replied) if span.started_at <= reward.at]
            each[before[-1] if before else 0] += reward.value * config.reward_scale
    final, _ = reward_of(rollout, config.reward_name or FINAL)
    if replied and final is not None and config.turn_reward != (config.reward_name or FINAL):
        each[-1] += final * config.reward_scale
    return each if any(reward.name == config.turn_reward for reward in recorded) or final is not None else []


def _is_held_out(key: str, config: TrainConfig) -> bool:
    """By the task alone: its rollouts and roles stay on one side."""
    place = int.from_bytes(hashlib.blake2b(f"{config.seed} {key}".encode(), digest_size=4).digest(), "big")
    return place < config.validation * 2**32


def reward_of(rollout: Rollout, name: str | None) -> tuple[float | None, str | None]:
    """The reward to train on, or why there is none: a missing score is never 0."""
    reward = rollout.rewards.get(name) if name else rollout.reward
    if reward is not None and math.isfinite(reward):
        return reward, None
    if not rollout.rewards:
        return None, "unscored"
    if name and name not in rollout.rewards:
        return None, f"no reward named {name!r}"
    if not name and len(rollout.rewards) > 1 and "reward" not in rollout.rewards:
        return None, "several rewards, none named 'reward' (--reward-name picks one)"
    return None, "the reward is not finite"


def start_weights(config: TrainConfig, origins: Counter[Origin]) -> tuple[str, str | None]:
    """Model and adapter to start from: those that sampled the rollouts, unless flags say otherwise."""
    roots = Counter[str]()
    adapters = Counter[str | None]()
    for origin, calls in origins.items():
        roots[origin.model_root or ""] += calls
        adapters[origin.adapter_root if origin.version else None] += calls
    model = config.model
    if model is None:
        known = [root for root in roots if root]
        if len(known) != 1:
            found = _counts(Counter({root or "not recorded": calls for root, calls in roots.items()}))
            raise SettingError(f"the calls name {len(known)} models ({found}); --model DIR says which one to train")
        (model,) = known
    if config.adapter == "none" or config.full:
        return model, None
    if config.adapter is not None:
        return model, config.adapter
    if len(adapters) > 1:
        found = _counts(Counter({str(adapter or "no adapter"): calls for adapter, calls in adapters.items()}))
        raise SettingError(
            f"the calls come from {len(adapters)} policy versions ({found}); --adapter DIR says which one to go on "
            "from, and --adapter none starts a new one"
        )
    adapter = next(iter(adapters), None)
    if adapter is None and any(origin.version for origin in origins):
        version = next(origin.version for origin in origins if origin.version)
        raise SettingError(
            f"the calls come from the adapter {version!r}, whose folder is not known; give --adapter DIR"
        )
    return model, adapter


def _defaults(model: str | None) -> Callable[[str | None], dict[str, Any]]:
    return lambda root: generation_defaults(model or root)


@lru_cache
def generation_defaults(model: str | None) -> dict[str, Any]:
    """The sampling settings that a server takes from the model's folder when a request leaves them unset."""
    path = Path(model or "") / "generation_config.json"
    if model is None or not path.is_file():
        return {}
    found = json.loads(path.read_text())
    # A server falls back to temperature 1 when neither the request nor the model says anything.
    return {"temperature": 1.0} | {key: found[key] for key in SERVER_DEFAULTS if found.get(key) is not None}


def _nothing(dataset: Dataset, config: TrainConfig) -> str:
    """One line: what was there, and what each part of it lacked."""
    trajectories = dataset.trajectories
    if not dataset.rewards:
        return f"no rollouts in {', '.join(config.stores)}; agentlight-run writes them"
    parts = [f"nothing to train on in {len(dataset.rewards)} rollouts with {trajectories.calls} calls"]
    if dataset.left_out:
        parts.append("rollouts left out: " + _counts(dataset.left_out))
    if trajectories.dropped:
        parts.append("calls dropped: " + _counts(trajectories.dropped))
    parts.append("a group needs two scored rollouts of one task with different rewards (--samples 8)")
    return "; ".join(parts)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in counts.most_common())
