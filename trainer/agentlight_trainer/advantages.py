"""Groups of rollouts and their advantages: statistics once a rollout, in float64, over the scored ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from agentlight_trainer.trajectory import Sample

EPSILON = 1e-6
SAME = 1e-9  # rewards that differ by less, relatively, are equal: their difference is rounding


@dataclass
class Group:
    """The rollouts of one task (or, without task ids, of one first prompt) as one role sees them."""

    key: str
    role: str
    rewards: dict[str, float] = field(default_factory=dict)  # by rollout, scored ones only
    unscored: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    advantages: dict[str, float] = field(default_factory=dict)  # by rollout

    @property
    def state(self) -> str:
        """Why the group teaches something or nothing."""
        if not self.rewards:
            return "unscored"
        if len(self.rewards) == 1:
            return "one scored rollout"
        return "signal" if any(self.advantages.values()) else "equal rewards"


def group_samples(samples: Iterable[Sample], rewards: dict[str, float | None]) -> list[Group]:
    """Group = same task and same role; `rewards` by rollout id, None for an unscored one."""
    groups: dict[tuple[str, str], Group] = {}
    for sample in samples:
        group = groups.setdefault((sample.task_key, sample.role), Group(sample.task_key, sample.role))
        group.samples.append(sample)
        reward = rewards.get(sample.rollout_id)
        if reward is None:
            if sample.rollout_id not in group.unscored:
                group.unscored.append(sample.rollout_id)
        else:
            group.rewards[sample.rollout_id] = reward
    return list(groups.values())


def set_advantages(groups: list[Group], estimator: str) -> None:
    """One advantage a rollout and group; 0 in a group of one and in one whose rewards are equal."""
    every = {rollout: reward for group in groups for rollout, reward in group.rewards.items()}
    batch_std = float(np.std(np.array(list(every.values())), ddof=1)) if len(every) > 1 else 0.0
    for group in groups:
        rewards_G = np.array(list(group.rewards.values()), np.float64)
        if len(rewards_G) < 2 or np.ptp(rewards_G) <= SAME * np.abs(rewards_G).max():
            advantages_G = np.zeros_like(rewards_G)
        else:
            advantages_G = ADVANTAGES[estimator](rewards_G, batch_std)
        group.advantages = dict(zip(group.rewards, advantages_G.tolist(), strict=True))


def grouped(rewards_G: np.ndarray, _batch_std: float) -> np.ndarray:
    """GRPO: centred, over the sample standard deviation of the group."""
    return (rewards_G - rewards_G.mean()) / (rewards_G.std(ddof=1) + EPSILON)


def centred(rewards_G: np.ndarray, _batch_std: float) -> np.ndarray:
    """Dr.GRPO: centred only, so that easy and hard tasks keep their scale."""
    return rewards_G - rewards_G.mean()


def leave_one_out(rewards_G: np.ndarray, _batch_std: float) -> np.ndarray:
    """RLOO: against the mean of the others."""
    return (rewards_G - rewards_G.mean()) * len(rewards_G) / (len(rewards_G) - 1)


def batch_scaled(rewards_G: np.ndarray, batch_std: float) -> np.ndarray:
    """Centred in the group, over the standard deviation of all scored rollouts."""
    return (rewards_G - rewards_G.mean()) / (batch_std + EPSILON)


ADVANTAGES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "group": grouped,
    "center": centred,
    "rloo": leave_one_out,
    "batch_std": batch_scaled,
}
