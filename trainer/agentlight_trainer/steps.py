"""Groups with signal -> optimizer steps: which rollouts, in which packs, with which weight a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agentlight_trainer.advantages import Group
from agentlight_trainer.aggregations import AGGREGATIONS
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.credit import Credit, spread, turn_advantages
from agentlight_trainer.limits import within
from agentlight_trainer.objectives import objective
from agentlight_trainer.packing import Pack
from agentlight_trainer.trajectory import Sample

Packer = Callable[[Sequence[Sample], int], list[Pack]]
STEPS_AN_EPOCH = 4  # by default: fewer would hardly move the weights, more make noisy steps of few rollouts
FEWEST_ROLLOUTS = 8


@dataclass
class Step:
    """What one optimizer step sees. Its cut into packs changes nothing but time and memory."""

    packs: list[Pack]
    advantages: dict[int, list[float]]  # one a trained token, by id() of the sample
    weights: dict[int, float]  # of one token, by id() of the sample
    rewards: dict[str, float]  # by rollout

    @property
    def trained_tokens(self) -> int:
        return sum(len(pack.targets_T) for pack in self.packs)

    @property
    def computed_tokens(self) -> int:
        return sum(pack.tokens for pack in self.packs)

    def advantages_T(self, pack: Pack) -> Tensor:
        values = [value for sample in pack.samples for value in self.advantages[id(sample)]]
        return torch.tensor(values, dtype=torch.float32)

    def weights_T(self, pack: Pack) -> Tensor:
        by_sample = torch.tensor([self.weights[id(sample)] for sample in pack.samples], dtype=torch.float32)
        return by_sample[pack.samples_T]


@dataclass
class Plan:
    """The steps of one epoch, and what the model's context has cut from the samples."""

    steps: list[Step]
    cuts: Counter[str]


def plan(groups: list[Group], config: TrainConfig, packer: Packer, context: int, credit: Credit) -> Plan:
    """Groups are shuffled, their rollouts stay together: siblings share a prompt, which a pack computes once.

    The number of steps depends on the rollouts alone, never on their turns. With --objective sft only the chosen
    ones are rollouts of a step.
    """
    order = np.random.default_rng(config.seed).permutation(len(groups))
    units: list[_Unit] = []
    cuts = Counter[str]()
    for group in (groups[index] for index in order):
        of_turns = turn_advantages(group, credit)
        for rollout in group.rewards:
            if config.objective == "sft" and not group.advantages[rollout]:
                continue
            samples = [sample for sample in group.samples if sample.rollout_id == rollout]
            fitting = [cut for sample in samples if (cut := _fit(sample, context, cuts)) is not None]
            if fitting:
                units.append(_Unit(rollout, group.rewards[rollout], [(one, spread(one, of_turns)) for one in fitting]))
    size = config.rollouts_per_step or max(FEWEST_ROLLOUTS, -(-len(units) // STEPS_AN_EPOCH))
    parts = np.array_split(np.arange(len(units)), -(-len(units) // size)) if units else []
    return Plan([_step([units[index] for index in part], config, packer) for part in parts], cuts)


class _Unit(NamedTuple):
    rollout_id: str
    reward: float
    samples: list[tuple[Sample, list[float]]]  # with the advantage of each trained token


def _fit(sample: Sample, context: int, cuts: Counter[str]) -> Sample | None:
    fitting = within(sample, context)
    if fitting is None:
        cuts[f"samples dropped: longer than the model's context of {context:,} tokens"] += 1
    elif fitting is not sample:
        cuts[f"samples cut at the turn that passes the model's context of {context:,} tokens"] += 1
    return fitting


def _step(units: list[_Unit], config: TrainConfig, packer: Packer) -> Step:
    samples = [sample for unit in units for sample, _ in unit.samples]
    tokens_N = [len(sample.trained) for sample in samples]
    rollouts_N = [sample.rollout_id for sample in samples]
    weights_N = AGGREGATIONS[objective(config).aggregation](tokens_N, rollouts_N, config.length)
    return Step(
        packs=packer(samples, config.max_tokens),
        advantages={id(sample): values for unit in units for sample, values in unit.samples},
        weights={id(sample): weight for sample, weight in zip(samples, weights_N, strict=True)},
        rewards={unit.rollout_id: unit.reward for unit in units},
    )


def order(steps: Sequence[Step], config: TrainConfig) -> Iterator[tuple[int, Step]]:
    """Every step of the run with its epoch: each epoch in an order of its own, the same after a resume."""
    for epoch in range(config.epochs):
        for index in np.random.default_rng((config.seed, epoch)).permutation(len(steps)):
            yield epoch, steps[index]
