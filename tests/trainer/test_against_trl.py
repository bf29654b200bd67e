"""The same tensors through TRL's own loss and ours; where they differ, by what and why."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from agentlight_trainer.aggregations import AGGREGATIONS
from agentlight_trainer.losses import Rule, Tokens, loss_of

trl = pytest.importorskip("trl.trainer.grpo_trainer")

LENGTHS = [5, 2, 7, 3]


def rows() -> dict[str, Tensor]:
    """Four rows of log-probs by the trained weights, the weights before, and the behaviour policy."""
    generator = torch.Generator().manual_seed(3)

    def made(scale: float) -> Tensor:
        return scale * torch.randn(4, max(LENGTHS), generator=generator, dtype=torch.float64)

    old = -made(1.0).abs() - 0.1
    mask = torch.tensor([[step < length for step in range(max(LENGTHS))] for length in LENGTHS])
    advantages = torch.tensor([0.8, -1.1, 0.3, -0.4], dtype=torch.float64)
    return {"old": old, "now": old + made(0.4), "behaviour": old + made(0.3), "mask": mask, "advantages": advantages}


def trl_loss(given: dict[str, Tensor], now: Tensor, **settings: Any) -> Tensor:
    """TRL's method, on an object that has what it reads."""
    one = SimpleNamespace(gather=lambda x: x, reduce=lambda x, reduction: x, num_processes=1, sync_gradients=True)
    entropies = torch.zeros_like(now)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (now, entropies, None),
        get_off_policy_mask=trl.GRPOTrainer.get_off_policy_mask,
        aux_loss_enabled=False, top_entropy_quantile=1.0, importance_sampling_level="token", beta=0.0,
        off_policy_mask_threshold=None, use_vllm=False, vllm_importance_sampling_correction=True,
        epsilon_low=0.2, epsilon_high=0.28, loss_type="dapo", max_completion_length=16,
        current_gradient_accumulation_steps=1, model=SimpleNamespace(training=True), accelerator=one,
        _entropy_bonus_enabled=False, use_adaptive_entropy=False, _metrics=defaultdict(lambda: defaultdict(list)),
        args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
    )  # fmt: skip
    for name, value in settings.items():
        setattr(trainer, name, value)
    mask = given["mask"].long()
    inputs = {
        "prompt_ids": torch.zeros(4, 1, dtype=torch.int64), "prompt_mask": torch.ones(4, 1, dtype=torch.int64),
        "completion_ids": torch.zeros_like(mask), "completion_mask": mask, "advantages": given["advantages"],
        "old_per_token_logps": given["old"], "ref_per_token_logps": given["old"], "num_items_in_batch": mask.sum(),
        "sampling_per_token_logps": given["behaviour"],
        "importance_sampling_ratio": (given["old"] - given["behaviour"]).exp().clamp(max=2.0),
    }  # fmt: skip
    return trl.GRPOTrainer._compute_loss(trainer, None, inputs)


def our_loss(given: dict[str, Tensor], now: Tensor, aggregation: str = "token_mean", **rule: Any) -> Tensor:
    mask = given["mask"]
    samples_T = torch.arange(4)[:, None].expand_as(mask)[mask]
    weights = torch.tensor(AGGREGATIONS[aggregation](LENGTHS, list("abcd"), 16), dtype=torch.float64)
    tokens = Tokens(
        now[mask],
        given["old"][mask],
        given["behaviour"][mask],
        given["advantages"][samples_T],
        weights[samples_T],
        samples_T,
    )
    return loss_of(tokens, Rule(**rule)).value


SAME = {
    "dapo": ({"loss_type": "dapo"}, {"correction": "none"}),
    "grpo": ({"loss_type": "grpo"}, {"correction": "none", "aggregation": "sequence_mean"}),
    "dr_grpo": ({"loss_type": "dr_grpo"}, {"correction": "none", "aggregation": "constant"}),
    "cispo": ({"loss_type": "cispo", "epsilon_high": 5.0}, {"term": "cispo", "correction": "none"}),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
        {"term": "gspo", "clip_low": 3e-4, "clip_high": 4e-4, "correction": "none", "aggregation": "sequence_mean"},
    ),
    "token TIS": ({"use_vllm": True}, {"correction": "token_tis"}),
    "KL": ({"beta": 0.1}, {"kl": 0.1, "correction": "none"}),
    "TIS and KL": ({"use_vllm": True, "beta": 0.1}, {"kl": 0.1, "correction": "token_tis"}),
}


@pytest.mark.parametrize("name", SAME)
def test_loss_and_gradient_equal_trls(name: str):
    """In float64, to 1e-12, away from ratio 1, with a loss that is not zero."""
    theirs, ours = SAME[name]
    given = rows()
    losses, gradients = [], []
    for compute, settings in ((trl_loss, theirs), (our_loss, ours)):
        now = given["now"].clone().requires_grad_()
        losses.append(compute(given, now, **settings))
        gradients.append(torch.autograd.grad(losses[-1], now)[0] * given["mask"])
    assert losses[0].abs() > 1e-3
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-12, atol=1e-12)


def test_cispo_of_trl_without_settings_has_another_cap():
    """TRL takes epsilon_high for an absolute cap: 0.2 by default, so at ratio 1 its gradient is a fifth of ours."""
    given = rows() | {"now": rows()["old"]}
    gradients = []
    for compute, settings in (
        (trl_loss, {"loss_type": "cispo", "epsilon_high": 0.2}),
        (our_loss, {"term": "cispo", "correction": "none"}),
    ):
        now = given["now"].clone().requires_grad_()
        gradients.append(torch.autograd.grad(compute(given, now, **settings), now)[0] * given["mask"])
    torch.testing.assert_close(gradients[0], 0.2 * gradients[1], rtol=1e-9, atol=1e-12)


def test_the_off_policy_mask_is_measured_at_the_start_and_not_at_the_current_weights():
    """TRL drops a bad row by log(behaviour / current), which moves within a step; ours is fixed before step 1.

    At the weights of the start both are the same.
    """
    given = rows() | {"now": rows()["old"]}
    theirs = trl_loss(given, given["now"], off_policy_mask_threshold=0.05)
    ours = our_loss(given, given["now"], off_policy_limit=0.05, correction="none")
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
