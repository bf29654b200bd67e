"""Groups with signal -> optimizer steps: which rollouts, in which packs, with which weight a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentlight_trainer.advantages import Group
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.losses import AGGREGATIONS
from agentlight_trainer.packing import Pack
from agentlight_trainer.trajectory import Sample

Packer = Callable[[Sequence[Sample], int], list[Pack]]
STEPS_AN_EPOCH = 4  # by default: fewer would hardly move the weights, more make noisy steps of few rollouts
FEWEST_ROLLOUTS = 8


@dataclass
class Step:
    """What one optimizer step sees. Its cut into packs changes nothing but time and memory."""

    packs: list[Pack]
    advantages: dict[int, float]  # by id() of the sample
    weights: dict[int, float]  # of one token, by id() of the sample
    rewards: list[float]  # one a rollout

    @property
    def trained_tokens(self) -> int:
        return sum(len(pack.targets_T) for pack in self.packs)

    @property
    def computed_tokens(self) -> int:
        return sum(pack.tokens for pack in self.packs)

    def advantages_T(self, pack: Pack) -> Tensor:
        return _spread(pack, self.advantages)

    def weights_T(self, pack: Pack) -> Tensor:
        return _spread(pack, self.weights)


def _spread(pack: Pack, values: dict[int, float]) -> Tensor:
    by_sample = torch.tensor([values[id(sample)] for sample in pack.samples], dtype=torch.float32)
    return by_sample[pack.samples_T]


def plan(groups: list[Group], config: TrainConfig, packer: Packer, context: int) -> tuple[list[Step], int]:
    """The steps of one epoch, and how many samples are too long for the model.

    Groups are shuffled, their rollouts stay together: siblings share a prompt, which a pack computes once.
    """
    order = np.random.default_rng(config.seed).permutation(len(groups))
    units: list[tuple[Group, str, list[Sample]]] = []
    too_long = 0
    for group in (groups[index] for index in order):
        for rollout in group.rewards:
            samples = [sample for sample in group.samples if sample.rollout_id == rollout]
            fitting = [sample for sample in samples if len(sample.ids) <= context]
            too_long += len(samples) - len(fitting)
            if fitting:
                units.append((group, rollout, fitting))
    size = config.rollouts_per_step or max(FEWEST_ROLLOUTS, -(-len(units) // STEPS_AN_EPOCH))
    cuts = np.array_split(np.arange(len(units)), -(-len(units) // size)) if units else []
    return [_step([units[index] for index in cut], config, packer) for cut in cuts], too_long


def _step(units: list[tuple[Group, str, list[Sample]]], config: TrainConfig, packer: Packer) -> Step:
    samples = [sample for _, _, found in units for sample in found]
    tokens_N = [len(sample.trained) for sample in samples]
    rollouts_N = [sample.rollout_id for sample in samples]
    weights_N = AGGREGATIONS[config.aggregation](tokens_N, rollouts_N, config.max_tokens)
    return Step(
        packs=packer(samples, config.max_tokens),
        advantages={id(sample): group.advantages[name] for group, name, found in units for sample in found},
        weights={id(sample): weight for sample, weight in zip(samples, weights_N, strict=True)},
        rewards=[group.rewards[name] for group, name, _ in units],
    )


def order(steps: Sequence[Step], config: TrainConfig) -> Iterator[tuple[int, Step]]:
    """Every step of the run with its epoch: each epoch in an order of its own, the same after a resume."""
    for epoch in range(config.epochs):
        for index in np.random.default_rng((config.seed, epoch)).permutation(len(steps)):
            yield epoch, steps[index]
