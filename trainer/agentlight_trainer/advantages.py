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
    advantages: dict[str, float] = field(default_factory=dict)  # by rollout, before credit is shared among its turns
    scale: float = 1.0  # of an advantage against the difference to the mean of the other rollouts

    @property
    def state(self) -> str:
        """Why the group teaches something or nothing."""
        if not self.rewards:
            return "unscored"
        if any(self.advantages.values()):
            return "signal"
        return "one scored rollout" if len(self.rewards) == 1 else "equal rewards"


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


def set_advantages(groups: list[Group], estimator: str, least: float | None = None) -> None:
    """One advantage a rollout and group: `scale` times its reward's difference to the mean of the others.

    It is 0 in a group of one and in one whose rewards are equal. `least` is the reward from which on "best" takes a
    rollout (default: the best of its group).
    """
    every = {rollout: reward for group in groups for rollout, reward in group.rewards.items()}
    batch_std = float(np.std(np.array(list(every.values())), ddof=1)) if len(every) > 1 else 0.0
    for group in groups:
        rewards_G = np.array(list(group.rewards.values()), np.float64)
        if estimator == "best":
            advantages_G = _chosen(rewards_G, least).astype(float)
        elif estimator == "whiten":
            advantages_G = rewards_G
        elif _are_equal(rewards_G):
            advantages_G = np.zeros_like(rewards_G)
        else:
            others_G = (rewards_G.sum() - rewards_G) / (len(rewards_G) - 1)
            group.scale = SCALES[estimator](rewards_G, batch_std)
            advantages_G = group.scale * (rewards_G - others_G)
        group.advantages = dict(zip(group.rewards, advantages_G.tolist(), strict=True))
    if estimator in ("whiten", "center_whiten"):
        _whiten(groups)


def _are_equal(rewards_G: np.ndarray) -> bool:
    return len(rewards_G) < 2 or bool(np.ptp(rewards_G) <= SAME * np.abs(rewards_G).max())


def _chosen(rewards_G: np.ndarray, least: float | None) -> np.ndarray:
    """Those with at least the reward `least`; without one the best of the group, if it is better than another."""
    if least is not None:
        return rewards_G >= least
    return np.zeros(len(rewards_G), bool) if _are_equal(rewards_G) else rewards_G == rewards_G.max()


def _whiten(groups: list[Group]) -> None:
    """Mean 0 and variance 1 over all trained tokens: a rollout counts with its tokens (REINFORCE++)."""
    tokens = {
        (id(group), rollout): sum(len(s.trained) for s in group.samples if s.rollout_id == rollout)
        for group in groups
        for rollout in group.rewards
    }
    values = np.array([value for group in groups for value in group.advantages.values()])
    counts = np.array([tokens[id(group), rollout] for group in groups for rollout in group.advantages], np.float64)
    if not counts.sum():
        return
    mean = float((values * counts).sum() / counts.sum())
    std = float(np.sqrt((counts * (values - mean) ** 2).sum() / counts.sum()))
    for group in groups:
        group.scale /= std + EPSILON
        group.advantages = {
            rollout: (value - mean) / (std + EPSILON) if std > SAME * abs(mean) else 0.0
            for rollout, value in group.advantages.items()
        }


def _part(rewards_G: np.ndarray) -> float:
    """A difference to the mean of all is this part of the one to the mean of the others."""
    return (len(rewards_G) - 1) / len(rewards_G)


def grouped(rewards_G: np.ndarray, _batch_std: float) -> float:
    """GRPO: centred, over the sample standard deviation of the group."""
    return _part(rewards_G) / (float(rewards_G.std(ddof=1)) + EPSILON)


def centred(rewards_G: np.ndarray, _batch_std: float) -> float:
    """Dr.GRPO: centred only, so that easy and hard tasks keep their scale."""
    return _part(rewards_G)


def leave_one_out(rewards_G: np.ndarray, _batch_std: float) -> float:
    """RLOO: against the mean of the others."""
    return 1.0


def batch_scaled(rewards_G: np.ndarray, batch_std: float) -> float:
    """Centred in the group, over the standard deviation of all scored rollouts."""
    return _part(rewards_G) / (batch_std + EPSILON)


SCALES: dict[str, Callable[[np.ndarray, float], float]] = {
    "group": grouped,
    "center": centred,
    "rloo": leave_one_out,
    "batch_std": batch_scaled,
    "center_whiten": centred,
}
# "whiten" has no baseline of the group's, "best" is no estimate at all.
ADVANTAGES = (*SCALES, "whiten", "best")
