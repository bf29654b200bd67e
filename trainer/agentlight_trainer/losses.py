"""Objectives as pure functions on plain tensors: an entry a trained token, whose weight carries the denominator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

BOUND = 20.0  # a log-ratio beyond it is bounded before exp()
WEIGHT_CAP = 2.0  # of the behaviour weight


@dataclass
class Loss:
    """`value` is this pack's share of the step's loss; `sums` add up over packs, `tokens` is their divisor."""

    value: Tensor
    tokens: int
    sums: dict[str, float] = field(default_factory=dict)


def grpo_loss(
    logprobs_T: Tensor,
    anchor_logprobs_T: Tensor,
    behaviour_logprobs_T: Tensor,
    advantages_T: Tensor,
    weights_T: Tensor,
    *,
    anchor: str = "decoupled",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    kl: float = 0.0,
    reference_logprobs_T: Tensor | None = None,
) -> Loss:
    """PPO's clipped objective. A NaN behaviour log-prob is unknown: that token's correction is 1.

    `decoupled` clips around the weights at the start (`anchor_logprobs_T`) and pays for the distance to the
    behaviour policy with a truncated weight, once, before KL. `bypass` clips around the behaviour policy itself.
    """
    known_T = ~torch.isnan(behaviour_logprobs_T)
    if anchor == "bypass":
        old_T = torch.where(known_T, behaviour_logprobs_T, logprobs_T.detach())
        correction_T = torch.ones_like(old_T)
    else:
        old_T = anchor_logprobs_T
        distance_T = torch.where(known_T, old_T - behaviour_logprobs_T, torch.zeros_like(old_T))
        correction_T = distance_T.clamp(-BOUND, BOUND).exp().clamp(max=WEIGHT_CAP).detach()
    ratio_T = (logprobs_T - old_T).clamp(-BOUND, BOUND).exp()
    gain_T = ratio_T * advantages_T
    clipped_gain_T = ratio_T.clamp(1 - clip_low, 1 + clip_high) * advantages_T
    loss_T = -torch.minimum(gain_T, clipped_gain_T) * correction_T
    sums = {
        "clip_fraction": float((clipped_gain_T < gain_T).sum()),
        "ratio": float(ratio_T.detach().sum()),
        "behaviour_weight": float(correction_T.sum()),
    }
    if kl:
        assert reference_logprobs_T is not None, "a KL term needs the reference's log-probs"
        kl_T = k3(logprobs_T, reference_logprobs_T)
        loss_T = loss_T + kl * kl_T
        sums["kl"] = float(kl_T.detach().sum())
    return Loss((loss_T * weights_T).sum(), len(loss_T), sums)


def k3(logprobs_T: Tensor, reference_logprobs_T: Tensor) -> Tensor:
    """KL to the reference, a token: exp(d) - d - 1 with d = log reference - log policy; never negative."""
    difference_T = (reference_logprobs_T - logprobs_T).clamp(-BOUND, BOUND)
    return difference_T.exp() - difference_T - 1


LOSSES: dict[str, Callable[..., Loss]] = {"grpo": grpo_loss}


def token_mean(tokens_N: Sequence[int], rollouts_N: Sequence[str], _length: int) -> list[float]:
    """Every trained token of the step weighs the same."""
    return [1 / sum(tokens_N)] * len(tokens_N)


def rollout_mean(tokens_N: Sequence[int], rollouts_N: Sequence[str], _length: int) -> list[float]:
    """Every rollout weighs the same, however many samples and tokens it has."""
    total: dict[str, int] = {}
    for tokens, rollout in zip(tokens_N, rollouts_N, strict=True):
        total[rollout] = total.get(rollout, 0) + tokens
    return [1 / (len(total) * total[rollout]) for rollout in rollouts_N]


def sequence_mean(tokens_N: Sequence[int], rollouts_N: Sequence[str], _length: int) -> list[float]:
    """Every sample weighs the same (the GRPO paper)."""
    return [1 / (len(tokens_N) * tokens) for tokens in tokens_N]


def constant(tokens_N: Sequence[int], rollouts_N: Sequence[str], length: int) -> list[float]:
    """A token weighs 1 / (samples x a length that is fixed for the run) (Dr.GRPO)."""
    return [1 / (len(tokens_N) * length)] * len(tokens_N)


# The weight of one token of each of a step's N samples, from the whole step: never from a pack or a micro-batch.
AGGREGATIONS: dict[str, Callable[[Sequence[int], Sequence[str], int], list[float]]] = {
    "token_mean": token_mean,
    "rollout_mean": rollout_mean,
    "sequence_mean": sequence_mean,
    "constant": constant,
}
