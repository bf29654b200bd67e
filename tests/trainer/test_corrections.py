"""What a token weighs for other weights having sampled it, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from agentlight_trainer.corrections import CORRECTIONS, off_policy_mask

# Two samples: w of 1.5 and 0.5, product 0.75, geometric mean 0.866; and one of w = 4.
LOG_W = torch.tensor([1.5, 0.5, 4.0], dtype=torch.float64).log()
SAMPLES = torch.tensor([0, 0, 1])


@pytest.mark.parametrize(
    ("name", "low", "high", "expected"),
    [
        ("none", 0, 2, [1, 1, 1]),
        ("token_tis", 0, 2, [1.5, 0.5, 2]),
        ("sequence_tis", 0, 2, [0.75, 0.75, 2]),
        ("sequence_mask", 0, 3, [0.75, 0.75, 0]),
        ("sequence_mask", 0.8, 5, [0, 0, 4]),
        ("token_mask", 0.6, 5, [1.5, 0, 4]),
        ("geometric", 0.8, 1.2, [1, 1, 0]),
    ],
)
def test_each_weight_by_hand(name: str, low: float, high: float, expected: list[float]):
    assert CORRECTIONS[name](LOG_W, SAMPLES, low, high).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("tokens", "product"), [(10, 1.127), (100, 3.320), (1000, 1.6e5)])
def test_a_product_over_a_sample_grows_with_its_length(tokens: int, product: float):
    """0.012 nats a token: harmless for 10 tokens, over the cap of 3 for 100. The geometric mean is 1.012 for all."""
    gap, one = torch.full((tokens,), 0.012), torch.zeros(tokens, dtype=torch.int64)
    assert CORRECTIONS["sequence_tis"](gap, one, 0, math.inf)[0].item() == pytest.approx(product, rel=0.02)
    assert CORRECTIONS["sequence_mask"](gap, one, 0, 3)[0].item() == pytest.approx(
        product if product < 3 else 0, rel=0.02
    )
    assert CORRECTIONS["geometric"](gap, one, 1.01, 1.013).tolist() == [1] * tokens


def test_only_bad_samples_far_from_the_start_are_dropped():
    """Mean log(behaviour / start) of sample 0 is 0.144, of sample 1 -1.39: the limit 0.1 drops sample 0 if bad."""
    good, bad = torch.ones(3, dtype=torch.float64), -torch.ones(3, dtype=torch.float64)
    assert off_policy_mask(LOG_W, bad, SAMPLES, 0.1).tolist() == [0, 0, 1]
    assert off_policy_mask(LOG_W, bad, SAMPLES, 0.2).tolist() == [1, 1, 1]
    assert off_policy_mask(LOG_W, good, SAMPLES, 0.1).tolist() == [1, 1, 1]
