"""Objectives as pure functions on plain tensors: an entry a trained token, whose weight carries the denominator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agentlight_trainer.corrections import BOUND, CORRECTIONS, off_policy_mask, per_sample


@dataclass(frozen=True)
class Rule:
    """Which loss: the term of a token, what "old" means in it, and what weighs and bounds it."""

    term: str = "clip"
    anchor: str = "decoupled"
    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = 0.0  # of a negative advantage: the loss is at most so many times it; 0 is off
    cispo_cap: float = 5.0
    correction: str = "token_tis"
    correction_low: float = 0.0
    correction_high: float = 2.0
    off_policy_limit: float = 0.0  # 0 is off
    kl: float = 0.0


@dataclass
class Tokens:
    """The T trained tokens of a pack. A NaN behaviour log-prob is unknown: that token's ratio to it is 1."""

    logprobs_T: Tensor  # by the weights that are trained, with gradients
    anchor_logprobs_T: Tensor  # by the weights at the start
    behaviour_logprobs_T: Tensor  # by the weights that sampled, as captured
    advantages_T: Tensor
    weights_T: Tensor  # the denominator's part: they add up over the step, not over the pack
    samples_T: Tensor  # the number of the sample in the pack, whole in it


@dataclass
class Loss:
    """`value` is this pack's share of the step's loss; `sums` add up over packs, `tokens` is their divisor."""

    value: Tensor
    tokens: int
    sums: dict[str, float] = field(default_factory=dict)


def loss_of(tokens: Tokens, rule: Rule) -> Loss:
    """The term, times the behaviour weight, plus KL to the start; summed with the tokens' weights.

    `decoupled` forms the ratio to the weights at the start and pays for their distance to the behaviour policy with
    a weight, once, before KL. `bypass` forms the ratio to the behaviour policy itself, with no further weight.
    """
    known_T = ~torch.isnan(tokens.behaviour_logprobs_T)
    if rule.anchor == "bypass":
        old_T = torch.where(known_T, tokens.behaviour_logprobs_T, tokens.logprobs_T.detach())
        correction_T = torch.ones_like(old_T)
    else:
        old_T = tokens.anchor_logprobs_T
        correction_T = correction_of(tokens, known_T, rule)
    term = TERMS[rule.term]
    log_ratio_T = tokens.logprobs_T - old_T
    loss_T, clipped_T = term(log_ratio_T, tokens, rule)
    loss_T = loss_T * correction_T
    ratio_T = log_ratio_T.detach().clamp(-BOUND, BOUND).exp()
    sums = {
        "clip_fraction": float(clipped_T.sum()),
        "ratio": float(ratio_T.sum()),
        "behaviour_weight": float(correction_T.sum()),
        "masked": float((correction_T == 0).sum()),
    }
    if rule.kl:
        kl_T = k3(tokens.logprobs_T, tokens.anchor_logprobs_T)  # the reference: the model at the start, its adapter too
        loss_T = loss_T + rule.kl * kl_T
        sums["kl"] = float(kl_T.detach().sum())
    return Loss((loss_T * tokens.weights_T).sum(), len(loss_T), sums)


def correction_of(tokens: Tokens, known_T: Tensor, rule: Rule) -> Tensor:
    """The weight of each token for the distance of the weights at the start to the behaviour policy."""
    distance_T = torch.where(known_T, tokens.anchor_logprobs_T - tokens.behaviour_logprobs_T, 0.0).detach()
    correct = CORRECTIONS[rule.correction]
    correction_T = correct(distance_T, tokens.samples_T, rule.correction_low, rule.correction_high)
    if rule.off_policy_limit:
        mask_T = off_policy_mask(distance_T, tokens.advantages_T, tokens.samples_T, rule.off_policy_limit)
        correction_T = correction_T * mask_T
    return correction_T


def k3(logprobs_T: Tensor, reference_logprobs_T: Tensor) -> Tensor:
    """KL to the reference, a token: exp(d) - d - 1 with d = log reference - log policy; never negative."""
    difference_T = (reference_logprobs_T - logprobs_T).clamp(-BOUND, BOUND)
    return difference_T.exp() - difference_T - 1


# -- terms: log-ratios, tokens, rule -> the loss of each token, and which tokens the clip has stopped ------------


def clip(log_ratio_T: Tensor, tokens: Tokens, rule: Rule) -> tuple[Tensor, Tensor]:
    """PPO's: -min(ratio A, clip(ratio) A); with a dual clip, for A < 0, no more than -c A."""
    return _clipped(log_ratio_T.clamp(-BOUND, BOUND).exp(), tokens.advantages_T, rule)


def gspo(log_ratio_T: Tensor, tokens: Tokens, rule: Rule) -> tuple[Tensor, Tensor]:
    """GSPO's: the ratio is the geometric mean over the sample's trained tokens, the same for each of them."""
    mean_T = per_sample(log_ratio_T, tokens.samples_T, mean=True)
    return _clipped(mean_T.clamp(-BOUND, BOUND).exp(), tokens.advantages_T, rule)


def sequence_clip(log_ratio_T: Tensor, tokens: Tokens, rule: Rule) -> tuple[Tensor, Tensor]:
    """RLOO's: the ratio is the product over the sample's trained tokens."""
    sum_T = per_sample(log_ratio_T, tokens.samples_T, mean=False)
    return _clipped(sum_T.clamp(-BOUND, BOUND).exp(), tokens.advantages_T, rule)


def cispo(log_ratio_T: Tensor, tokens: Tokens, rule: Rule) -> tuple[Tensor, Tensor]:
    """CISPO's: -min(ratio, cap) A log p, the ratio a constant; a token over the cap still has a gradient."""
    ratio_T = log_ratio_T.detach().clamp(-BOUND, BOUND).exp()
    return -ratio_T.clamp(max=rule.cispo_cap) * tokens.advantages_T * tokens.logprobs_T, ratio_T > rule.cispo_cap


def likelihood(log_ratio_T: Tensor, tokens: Tokens, rule: Rule) -> tuple[Tensor, Tensor]:
    """Plain log-likelihood times the advantage: supervised fine-tuning where that is 1."""
    return -tokens.advantages_T * tokens.logprobs_T, torch.zeros_like(log_ratio_T, dtype=torch.bool)


def _clipped(ratio_T: Tensor, advantages_T: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    gain_T = ratio_T * advantages_T
    clipped_gain_T = ratio_T.clamp(1 - rule.clip_low, 1 + rule.clip_high) * advantages_T
    kept_T = torch.minimum(gain_T, clipped_gain_T)
    stopped_T = clipped_gain_T < gain_T
    if rule.dual_clip:
        floor_T = rule.dual_clip * advantages_T
        bounded_T = (advantages_T < 0) & (kept_T < floor_T)
        kept_T, stopped_T = torch.where(bounded_T, floor_T, kept_T), stopped_T | bounded_T
    return -kept_T, stopped_T


TERMS: dict[str, Callable[[Tensor, Tokens, Rule], tuple[Tensor, Tensor]]] = {
    "clip": clip,
    "gspo": gspo,
    "sequence_clip": sequence_clip,
    "cispo": cispo,
    "likelihood": likelihood,
}
