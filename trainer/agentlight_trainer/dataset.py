"""Stores -> groups of samples with advantages, and a count of everything that was left out; loads no model."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentlight_store import Rollout, Store
from agentlight_trainer.advantages import Group, group_samples, set_advantages
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.errors import NothingToTrain, SettingError
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

    @property
    def with_signal(self) -> list[Group]:
        return [group for group in self.groups if group.state == "signal"]

    @property
    def scored(self) -> list[float]:
        return [reward for reward in self.rewards.values() if reward is not None]


def read(config: TrainConfig) -> Dataset:
    """Every rollout of the stores. Raises NothingToTrain, with counts, when no group has signal."""
    trajectories, rewards, left_out = Trajectories(), {}, Counter[str]()
    for path in config.stores:
        for rollout in Store.open(path).rollouts():
            if rollout.rollout_id in rewards:
                continue  # the same store given twice, or a copy of it
            made = build(rollout, components=config.component, defaults=_defaults(config.model))
            trajectories.add(made)
            rewards[rollout.rollout_id], reason = reward_of(rollout, config.reward_name)
            if not made.samples:
                left_out["no usable call"] += 1
            elif reason:
                left_out[reason] += 1
    groups = group_samples(trajectories.samples, rewards)
    set_advantages(groups, config.advantage)
    dataset = Dataset(trajectories, groups, rewards, left_out)
    for group in groups:
        if group.state not in ("signal", "unscored"):
            left_out[f"in a group with {group.state}"] += len(group.rewards)
    if not dataset.with_signal:
        raise NothingToTrain(_nothing(dataset, config))
    return dataset


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
