"""Losses on a handful of tokens: every number here can be redone by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from agentlight_trainer.aggregations import AGGREGATIONS
from agentlight_trainer.losses import TERMS, Loss, Rule, Tokens, k3, loss_of


def log(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def loss(
    now: Tensor,
    start: Tensor,
    behaviour: Tensor | None,
    advantages: Sequence[float],
    samples: Sequence[int] = (),
    **rule: Any,
) -> Loss:
    """Each token weighs 1 / T; `behaviour` None is unknown; without `samples` all tokens are of one."""
    number = len(now)
    unknown = torch.full((number,), torch.nan, dtype=torch.float64)
    tokens = Tokens(
        now,
        start,
        unknown if behaviour is None else behaviour,
        torch.tensor(advantages, dtype=torch.float64),
        torch.full((number,), 1 / number, dtype=torch.float64),
        torch.tensor(list(samples) or [0] * number),
    )
    return loss_of(tokens, Rule(**rule))


def test_clip_by_hand():
    """Ratios 0.6/0.5 = 1.2 (clipped to 1.1) and 0.5/0.5 = 1: loss = -(1.1 + 1.0) / 2, one of two clipped."""
    made = loss(log(0.6, 0.5), log(0.5, 0.5), None, [1, 1], clip_high=0.1)
    assert made.value.item() == pytest.approx(-1.05)
    assert made.sums["clip_fraction"] == 1


def test_the_two_sides_of_the_clip():
    """Good: 0.9 earns 0.9 and 1.5 earns 1.28. Bad: 1.5 costs 1.5 and 0.5 costs 0.8."""
    made = loss(log(0.45, 0.75, 0.75, 0.25), log(*[0.5] * 4), None, [1, 1, -1, -1])
    assert made.value.item() == pytest.approx((-0.9 - 1.28 + 1.5 + 0.8) / 4)


def test_the_dual_clip_bounds_what_a_bad_token_costs():
    """Ratio 0.9/0.1 = 9 with advantage -1 costs 9; with c = 3 it costs 3, without a gradient. A good one stays."""
    assert loss(log(0.9), log(0.1), None, [-1]).value.item() == pytest.approx(9)
    now = log(0.9, 0.5).requires_grad_()
    made = loss(now, log(0.1, 0.5), None, [-1, 1], dual_clip=3.0)
    (gradient,) = torch.autograd.grad(made.value, now)
    assert made.value.item() == pytest.approx((3 - 1) / 2)
    assert gradient.tolist() == pytest.approx([0, -0.5])


@pytest.mark.parametrize("term", ["clip", "gspo", "sequence_clip", "cispo"])
@pytest.mark.parametrize("anchor", ["decoupled", "bypass"])
def test_on_policy_every_gradient_is_reinforce(term: str, anchor: str):
    """Ratio 1: the gradient of the mean is -advantage / T, for samples whose tokens share their advantage."""
    now = log(0.3, 0.6, 0.2).requires_grad_()
    made = loss(now, log(0.3, 0.6, 0.2), log(0.3, 0.6, 0.2), [1, 1, -0.5], [0, 0, 1], term=term, anchor=anchor)
    (gradient,) = torch.autograd.grad(made.value, now)
    tokens = torch.tensor([2, 2, 1]) if term == "sequence_clip" else 1  # the product moves with each of its tokens
    torch.testing.assert_close(gradient, -torch.tensor([1, 1, -0.5], dtype=torch.float64) * tokens / 3)


def test_a_clipped_token_gets_no_gradient():
    now = log(0.9, 0.1).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(now, log(0.5, 0.5), None, [1, -1]).value, now)
    assert gradient.tolist() == [0.0, 0.0]


def test_gspo_clips_the_geometric_mean_of_a_sample():
    """Ratios 2 and 0.5 have the geometric mean 1, which earns 1 each; 1.21 and 1 have 1.1, which earns 1.05 each."""
    even = loss(log(0.8, 0.2), log(0.4, 0.4), None, [1, 1], term="gspo", clip_high=0.05)
    assert even.value.item() == pytest.approx(-1.0)
    up = loss(log(0.484, 0.4), log(0.4, 0.4), None, [1, 1], term="gspo", clip_high=0.05)
    assert up.value.item() == pytest.approx(-1.05)


def test_gspo_and_sequence_clip_keep_samples_apart():
    """Sample 0 with ratios 1.1, 1.1 and sample 1 with 0.9: products 1.21 and 0.9, means 1.1 and 0.9."""
    now, start, wide = log(0.55, 0.55, 0.45), log(0.5, 0.5, 0.5), {"clip_low": 1, "clip_high": 1}
    product = loss(now, start, None, [1, 1, 1], [0, 0, 1], term="sequence_clip", **wide)
    mean = loss(now, start, None, [1, 1, 1], [0, 0, 1], term="gspo", **wide)
    assert product.value.item() == pytest.approx(-(1.21 * 2 + 0.9) / 3)
    assert mean.value.item() == pytest.approx(-(1.1 * 2 + 0.9) / 3)


def test_cispo_caps_the_weight_and_keeps_the_gradient():
    """Ratio 0.9/0.1 = 9 is capped at 5, absolutely: the gradient is -5 A / T, and at ratio 1 it is -A / T."""
    now = log(0.9, 0.5).requires_grad_()
    made = loss(now, log(0.1, 0.5), None, [1, 1], term="cispo")
    (gradient,) = torch.autograd.grad(made.value, now)
    assert gradient.tolist() == pytest.approx([-2.5, -0.5])
    assert made.sums["clip_fraction"] == 1


def test_sft_is_the_negative_log_likelihood():
    made = loss(log(0.5, 0.25), log(0.1, 0.1), None, [1, 1], term="likelihood", correction="none")
    assert made.value.item() == pytest.approx(-math.log(0.5 * 0.25) / 2)


def test_decoupled_pays_for_the_distance_to_the_behaviour_policy_once():
    """Start 0.5 against behaviour 0.4 weighs 1.25; against 0.1 it would weigh 5, and is cut at 2."""
    made = loss(log(0.5, 0.5), log(0.5, 0.5), log(0.4, 0.1), [1, 1])
    assert made.value.item() == pytest.approx(-(1.25 + 2.0) / 2)


def test_bypass_clips_around_the_behaviour_policy_without_a_further_weight():
    """Ratios 0.5/0.4 = 1.25 and 0.5/0.1 = 5, which earns 1.28."""
    made = loss(log(0.5, 0.5), log(0.9, 0.9), log(0.4, 0.1), [1, 1], anchor="bypass")
    assert made.value.item() == pytest.approx(-(1.25 + 1.28) / 2)


def test_an_unknown_behaviour_logprob_weighs_one_and_stays_finite():
    for anchor in ("decoupled", "bypass"):
        now = log(0.5, 0.5).requires_grad_()
        made = loss(now, log(0.5, 0.5), None, [1, 1], anchor=anchor)
        (gradient,) = torch.autograd.grad(made.value, now)
        assert made.value.item() == pytest.approx(-1.0)
        assert gradient.tolist() == pytest.approx([-0.5, -0.5])


def test_the_weight_multiplies_before_kl_is_added():
    """Weight 2 on the clipped term only: -2 + 0.1 * k3 of 0.5 against 0.25."""
    made = loss(log(0.25), log(0.5), log(0.25), [1], kl=0.1, clip_low=1)
    assert made.value.item() == pytest.approx(-0.5 * 2 + 0.1 * (2 - math.log(2) - 1))


def test_k3_is_zero_at_the_reference_and_bounded_far_from_it():
    assert k3(log(0.3), log(0.3)).item() == 0
    assert k3(torch.tensor([-500.0]), torch.tensor([0.0])).item() == pytest.approx(math.exp(20) - 21, rel=1e-6)


@pytest.mark.parametrize("term", sorted(TERMS))
def test_far_log_ratios_stay_finite(term: str):
    """500 nats off, for a bad token: bounded, with finite gradients."""
    now = torch.tensor([-0.1, -600.0], requires_grad=True)
    made = loss(now, torch.tensor([-500.0, -0.1]), torch.tensor([-500.0, -0.1]), [-1, 1], [0, 1], term=term)
    (gradient,) = torch.autograd.grad(made.value, now)
    assert torch.isfinite(made.value) and torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("token_mean", 0.5), ("sequence_mean", 0.0), ("rollout_mean", 0.0), ("constant", 0.25)],
)
def test_aggregation_toy(aggregation: str, expected: float):
    """A: advantage +1, 2 tokens. B: -1, 6 tokens. Ratio 1, one rollout each, L = 8."""
    weights = AGGREGATIONS[aggregation]([2, 6], ["a", "b"], 8)
    same, samples_T = torch.zeros(8), torch.tensor([0] * 2 + [1] * 6)
    tokens = Tokens(same, same, same, torch.tensor([1.0] * 2 + [-1.0] * 6), torch.tensor(weights)[samples_T], samples_T)
    assert loss_of(tokens, Rule()).value.item() == pytest.approx(expected, abs=1e-6)


def test_a_rollout_weighs_the_same_in_one_sample_or_three():
    weights = AGGREGATIONS["rollout_mean"]([2, 3, 1, 6], ["a", "a", "a", "b"], 8)
    assert 2 * weights[0] + 3 * weights[1] + weights[2] == pytest.approx(0.5)
    assert 6 * weights[3] == pytest.approx(0.5)
