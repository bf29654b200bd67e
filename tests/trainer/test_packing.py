"""The prefix tree computes what plain rows compute, for each kind of position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from agentlight_trainer.attention import NAME
from agentlight_trainer.packing import Pack, pack_rows, pack_tree
from agentlight_trainer.policy import Policy
from agentlight_trainer.selftest import tree_fault
from agentlight_trainer.trajectory import Sample

LLAMA = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.3,
)
GPT2 = GPT2Config(  # learned positions, and dropout that must not be felt
    vocab_size=64,
    n_embd=32,
    n_layer=2,
    n_head=4,
    n_positions=128,
    bos_token_id=1,
    eos_token_id=2,
    initializer_range=0.3,
)


def policy(config: Any, dtype: torch.dtype = torch.float32) -> Policy:
    torch.manual_seed(0)
    return Policy(AutoModelForCausalLM.from_config(config, attn_implementation=NAME).to(dtype))


def samples() -> list[Sample]:
    """Siblings behind one prompt, one identical to another, one that forks within, and a stranger."""
    random = np.random.default_rng(0)
    prompt = random.integers(0, 64, 20)
    tails = [random.integers(0, 64, 4 + number) for number in range(4)]
    rows = [np.concatenate([prompt, tail]) for tail in tails]
    rows += [rows[0].copy(), np.concatenate([rows[3][:24], random.integers(0, 64, 3)]), random.integers(0, 64, 25)]
    made = []
    for number, ids in enumerate(rows):
        mask = np.arange(len(ids)) >= 18
        mask[19] = False  # an observation between two turns
        temperatures = np.full(len(ids), 1 + number % 2 * 0.5, np.float32)
        unknown = np.full(len(ids), np.nan, np.float32)
        made.append(Sample(f"r{number}", "t", "agent", ids, mask, unknown, temperatures, []))
    return made


def naive(learner: Policy, sample: Sample) -> torch.Tensor:
    """Full softmax of the row alone."""
    logits = learner.model(torch.from_numpy(sample.ids)[None]).logits[0].float()
    logprobs = (logits / float(sample.temperatures[0])).log_softmax(-1)
    return torch.stack([logprobs[place - 1, sample.ids[place]] for place in sample.trained])


@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=["llama", "gpt2"])
@pytest.mark.parametrize("packer", [pack_tree, pack_rows])
def test_logprobs_and_gradients_equal_the_full_softmax_of_each_row(config: Any, packer: Any):
    """To 1e-5 in float32, with a different weight a token, so that no common factor cancels."""
    learner, total, reference = policy(config), torch.zeros(()), torch.zeros(())
    for pack in packer(samples(), 60):
        logprobs_T = learner.logprobs(pack)
        for number, sample in enumerate(pack.samples):
            expected = naive(learner, sample)
            mine = logprobs_T[pack.samples_T == number]
            torch.testing.assert_close(mine, expected, rtol=0, atol=1e-5)
            weights = torch.linspace(-1, 2, len(expected)) * (1 + int(sample.rollout_id[1:]))
            total, reference = total + (mine * weights).sum(), reference + (expected * weights).sum()
    got = torch.autograd.grad(total, list(learner.trained.values()))
    wanted = torch.autograd.grad(reference, list(learner.trained.values()))
    assert abs(total.item()) > 1
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, float(other.abs().max())))


@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_a_frozen_head_gives_the_same_logprobs_and_gradients(config: Any):
    """With an adapter the head is not trained, and its gradient is taken in the forward."""
    learner, total, reference = policy(config), torch.zeros(()), torch.zeros(())
    learner.head.weight.requires_grad_(False)
    trained = [weight for weight in learner.model.parameters() if weight.requires_grad]
    for pack in pack_tree(samples(), 60):
        logprobs_T = learner.logprobs(pack)
        expected_T = torch.cat([naive(learner, sample) for sample in pack.samples])
        torch.testing.assert_close(logprobs_T, expected_T, rtol=0, atol=1e-5)
        weights = torch.linspace(-1, 2, len(expected_T))
        total, reference = total + (logprobs_T * weights).sum(), reference + (expected_T * weights).sum()
    got, wanted = torch.autograd.grad(total, trained), torch.autograd.grad(reference, trained)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, float(other.abs().max())))


def test_shared_tokens_are_computed_once_and_counted_for_everybody():
    """Seven samples of 178 tokens hang on 58 nodes; each keeps its own trained entries."""
    (pack,) = pack_tree(samples(), 1000)
    assert pack.tokens < 80 < sum(len(sample.ids) for sample in pack.samples)
    assert len(pack.targets_T) == sum(len(sample.trained) for sample in pack.samples)


def test_no_pack_is_larger_than_asked_unless_one_sample_is():
    packs = pack_tree(samples(), 40)
    assert len(packs) > 1
    assert all(pack.tokens <= 40 for pack in packs)
    assert [pack.tokens for pack in pack_tree(samples()[:1], 5)] == [23]


def test_runs_cover_the_pack_in_order():
    (pack,) = pack_tree(samples(), 1000)
    assert sum(run.length for run in pack.runs) == pack.tokens


def test_every_token_is_scored_by_the_one_before_it():
    """A bigram model by construction: no attention, so log P(b | a) is one table."""
    learner = policy(LLAMA)
    with torch.no_grad():
        for layer in learner.plain.model.layers:  # type: ignore[union-attr] # a Llama
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        table = learner.model(torch.arange(64)[:, None]).logits[:, 0].log_softmax(-1)
    for pack in pack_tree(samples(), 1000):
        tempered, raw = learner.score(pack)
        for number, sample in enumerate(pack.samples):
            expected = torch.stack([table[sample.ids[place - 1], sample.ids[place]] for place in sample.trained])
            torch.testing.assert_close(raw[pack.samples_T == number], expected, rtol=0, atol=1e-5)
        assert not torch.equal(tempered, raw)


def test_the_self_test_passes_on_these_models_and_fails_on_one_that_ignores_the_tree():
    assert tree_fault(policy(LLAMA), samples()) is None
    assert tree_fault(policy(GPT2), samples()) is None
    torch.manual_seed(0)
    deaf = Policy(AutoModelForCausalLM.from_config(LLAMA, attn_implementation="eager"))
    assert "differ" in str(tree_fault(deaf, samples()))


def test_bfloat16_stays_near_float32():
    def scored(dtype: torch.dtype) -> torch.Tensor:
        packs: list[Pack] = pack_tree(samples(), 1000)
        return policy(LLAMA, dtype).score(packs[0])[0]

    assert float((scored(torch.bfloat16) - scored(torch.float32)).abs().mean()) < 0.05
