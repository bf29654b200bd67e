"""Behaviour corrections: what a token weighs because other weights sampled it than the ones at the start.

Each takes the log-ratios of the weights at the start to the behaviour policy (0 where that is unknown), the sample
that each of the T tokens belongs to, and two bounds; it returns a weight a token. All are constants: no gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

BOUND = 20.0  # a log-ratio beyond it is bounded before exp()


def per_sample(values_T: Tensor, samples_T: Tensor, *, mean: bool) -> Tensor:
    """The sum or mean over each sample's tokens, given to each of its tokens; with gradients."""
    number = int(samples_T.max()) + 1 if len(samples_T) else 0
    sums_N = values_T.new_zeros(number).index_add(0, samples_T, values_T)
    if mean:
        sums_N = sums_N / torch.bincount(samples_T, minlength=number).clamp(min=1)
    return sums_N[samples_T]


def _ratio(log_T: Tensor) -> Tensor:
    return log_T.clamp(-BOUND, BOUND).exp()


def none(log_ratios_T: Tensor, samples_T: Tensor, low: float, high: float) -> Tensor:
    """Every token weighs 1."""
    return torch.ones_like(log_ratios_T)


def token_tis(log_ratios_T: Tensor, samples_T: Tensor, low: float, high: float) -> Tensor:
    """Truncated importance sampling: min(w, high), token by token."""
    return _ratio(log_ratios_T).clamp(max=high)


def sequence_tis(log_ratios_T: Tensor, samples_T: Tensor, low: float, high: float) -> Tensor:
    """min(product of w over the sample, high): it grows or falls exponentially with the length."""
    return _ratio(per_sample(log_ratios_T, samples_T, mean=False)).clamp(max=high)


def sequence_mask(log_ratios_T: Tensor, samples_T: Tensor, low: float, high: float) -> Tensor:
    """The product of w over the sample where it lies in [low, high], else 0 (TRL's default, with high 3)."""
    return _within(_ratio(per_sample(log_ratios_T, samples_T, mean=False)), low, high)


def token_mask(log_ratios_T: Tensor, samples_T: Tensor, low: float, high: float) -> Tensor:
    """w where it lies in [low, high], else 0 (IcePop)."""
    return _within(_ratio(log_ratios_T), low, high)


def geometric(log_ratios_T: Tensor, samples_T: Tensor, low: float, high: float) -> Tensor:
    """A filter: 1 for samples whose geometric mean of w lies in [low, high], else 0."""
    mean_T = _ratio(per_sample(log_ratios_T, samples_T, mean=True))
    return ((mean_T >= low) & (mean_T <= high)).to(log_ratios_T.dtype)


def _within(weights_T: Tensor, low: float, high: float) -> Tensor:
    return torch.where((weights_T >= low) & (weights_T <= high), weights_T, 0.0)


CORRECTIONS: dict[str, Callable[[Tensor, Tensor, float, float], Tensor]] = {
    "token_tis": token_tis,
    "sequence_tis": sequence_tis,
    "sequence_mask": sequence_mask,
    "token_mask": token_mask,
    "geometric": geometric,
    "none": none,
}


def off_policy_mask(log_ratios_T: Tensor, advantages_T: Tensor, samples_T: Tensor, limit: float) -> Tensor:
    """0 for samples with a negative advantage and a mean log(behaviour / start) above `limit` (DeepSeek's)."""
    distance_T = -per_sample(log_ratios_T, samples_T, mean=True)
    return (~((advantages_T < 0) & (distance_T > limit))).to(log_ratios_T.dtype)
