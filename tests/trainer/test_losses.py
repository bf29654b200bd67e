"""Losses on a handful of tokens: every number here can be redone by hand."""

from __future__ import annotations

import math

import pytest
import torch

from agentlight_trainer.losses import AGGREGATIONS, LOSSES, grpo_loss, k3

UNKNOWN = torch.full((2,), torch.nan)


def log(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def even(number: int) -> torch.Tensor:
    return torch.full((number,), 1 / number, dtype=torch.float64)


def test_clip_by_hand():
    """Ratios 0.6/0.5 = 1.2 (clipped to 1.1) and 0.5/0.5 = 1: loss = -(1.1 + 1.0) / 2, one of two clipped."""
    loss = grpo_loss(log(0.6, 0.5), log(0.5, 0.5), UNKNOWN, torch.ones(2), even(2), clip_high=0.1)
    assert loss.value.item() == pytest.approx(-1.05)
    assert loss.sums["clip_fraction"] == 1


def test_the_two_sides_of_the_clip():
    """Good: 0.9 earns 0.9 and 1.5 earns 1.28. Bad: 1.5 costs 1.5 and 0.5 costs 0.8."""
    ratios = log(0.45, 0.75, 0.75, 0.25)
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    loss = grpo_loss(ratios, log(*[0.5] * 4), torch.full((4,), torch.nan), advantages, even(4))
    assert loss.value.item() == pytest.approx((-0.9 - 1.28 + 1.5 + 0.8) / 4)


def test_on_policy_the_gradient_is_reinforce():
    logprobs = log(0.3, 0.6).requires_grad_()
    advantages = torch.tensor([1.0, -0.5], dtype=torch.float64)
    for anchor in ("decoupled", "bypass"):
        loss = grpo_loss(logprobs, log(0.3, 0.6), log(0.3, 0.6), advantages, even(2), anchor=anchor)
        (gradient,) = torch.autograd.grad(loss.value, logprobs)
        torch.testing.assert_close(gradient, -advantages / 2)


def test_a_clipped_token_gets_no_gradient():
    logprobs = log(0.9, 0.1).requires_grad_()
    loss = grpo_loss(logprobs, log(0.5, 0.5), UNKNOWN, torch.tensor([1.0, -1.0]), even(2))
    (gradient,) = torch.autograd.grad(loss.value, logprobs)
    assert gradient.tolist() == [0.0, 0.0]


def test_decoupled_pays_for_the_distance_to_the_behaviour_policy_once():
    """Anchor 0.5 against behaviour 0.4 weighs 1.25; against 0.1 it would weigh 5, and is cut at 2."""
    loss = grpo_loss(log(0.5, 0.5), log(0.5, 0.5), log(0.4, 0.1), torch.ones(2), even(2))
    assert loss.value.item() == pytest.approx(-(1.25 + 2.0) / 2)


def test_bypass_clips_around_the_behaviour_policy_without_a_further_weight():
    """Ratios 0.5/0.4 = 1.25 and 0.5/0.1 = 5, which earns 1.28."""
    loss = grpo_loss(log(0.5, 0.5), log(0.9, 0.9), log(0.4, 0.1), torch.ones(2), even(2), anchor="bypass")
    assert loss.value.item() == pytest.approx(-(1.25 + 1.28) / 2)


def test_an_unknown_behaviour_logprob_weighs_one_and_stays_finite():
    for anchor in ("decoupled", "bypass"):
        logprobs = log(0.5, 0.5).requires_grad_()
        loss = grpo_loss(logprobs, log(0.5, 0.5), UNKNOWN, torch.ones(2), even(2), anchor=anchor)
        (gradient,) = torch.autograd.grad(loss.value, logprobs)
        assert loss.value.item() == pytest.approx(-1.0)
        assert gradient.tolist() == pytest.approx([-0.5, -0.5])


def test_the_weight_multiplies_before_kl_is_added():
    """Weight 2 on the clipped term only: -2 + 0.1 * k3."""
    one = torch.ones(1, dtype=torch.float64)
    loss = grpo_loss(log(0.5), log(0.5), log(0.25), one, one, kl=0.1, reference_logprobs_T=log(0.25))
    assert loss.value.item() == pytest.approx(-2 + 0.1 * (0.5 - math.log(0.5) - 1))


def test_k3_is_zero_at_the_reference_and_bounded_far_from_it():
    assert k3(log(0.3), log(0.3)).item() == 0
    assert k3(torch.tensor([-500.0]), torch.tensor([0.0])).item() == pytest.approx(math.exp(20) - 21, rel=1e-6)


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("token_mean", 0.5), ("sequence_mean", 0.0), ("rollout_mean", 0.0), ("constant", 0.25)],
)
def test_aggregation_toy(aggregation: str, expected: float):
    """A: advantage +1, 2 tokens. B: -1, 6 tokens. Ratio 1, one rollout each, L = 8."""
    weights = AGGREGATIONS[aggregation]([2, 6], ["a", "b"], 8)
    weights_T = torch.tensor([weights[0]] * 2 + [weights[1]] * 6)
    advantages_T = torch.tensor([1.0] * 2 + [-1.0] * 6)
    same = torch.zeros(8)
    assert LOSSES["grpo"](same, same, same, advantages_T, weights_T).value.item() == pytest.approx(expected, abs=1e-6)


def test_a_rollout_weighs_the_same_in_one_sample_or_three():
    weights = AGGREGATIONS["rollout_mean"]([2, 3, 1, 6], ["a", "a", "a", "b"], 8)
    assert 2 * weights[0] + 3 * weights[1] + weights[2] == pytest.approx(0.5)
    assert 6 * weights[3] == pytest.approx(0.5)
