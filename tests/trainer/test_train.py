"""The whole run on a tiny model and stores that hold what it really sampled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from agentlight_trainer import TrainConfig, dataset, policy
from agentlight_trainer.errors import SettingError, TrainerError
from agentlight_trainer.objectives import objective
from agentlight_trainer.optimize import pack_loss
from agentlight_trainer.packing import pack_rows, pack_tree
from agentlight_trainer.steps import plan
from agentlight_trainer.train import Result, look_ahead, train
from agentlight_trainer.trajectory import Origin

Stored = Callable[..., Path]


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    return TrainConfig(
        stores=(str(tmp_path / "store"),),
        output=str(tmp_path / "out"),
        dtype="float32",
        device="cpu",
        lora_rank=4,
        learning_rate=1e-2,
        rollouts_per_step=4,
        epochs=2,
    )


def adapter(result: Result) -> dict[str, torch.Tensor]:
    assert result.weights is not None
    return load_file(result.weights / "adapter_model.safetensors")


def test_a_run_makes_rewarded_tokens_likelier(sampled_store: Stored, config: TrainConfig):
    """After three epochs the adapter gives the advantage-weighted tokens more probability than the base does."""
    sampled_store()
    result = train(replace(config, epochs=3))
    data = dataset.read(config)
    old, new = (policy.load(config, result_model(data), which) for which in (None, str(result.weights)))

    def gain(learner: policy.Policy) -> float:
        total = 0.0
        for group in data.with_signal:
            for sample in group.samples:
                (pack,) = pack_rows([sample], 0)
                total += float(learner.score(pack)[0].sum()) * group.advantages[sample.rollout_id]
        return total

    assert result.steps == 9
    assert gain(new) > gain(old) + 1


def result_model(data: dataset.Dataset) -> str:
    (origin,) = data.trajectories.origins
    assert origin.model_root is not None
    return origin.model_root


def test_the_saved_adapter_is_a_peft_folder_of_the_recorded_model(
    sampled_store: Stored, config: TrainConfig, tiny_model: str
):
    sampled_store()
    result = train(config)
    assert result.weights is not None
    settings = json.loads((result.weights / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == tiny_model
    assert settings["lora_alpha"] == 2 * settings["r"] == 8
    PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model), result.weights)


def test_step_one_starts_at_ratio_one(sampled_store: Stored, config: TrainConfig):
    """Unchanged weights: ratio 1, nothing clipped, KL 0, and mean |log ratio| of rounding size."""
    sampled_store(temperature=0.7)
    train(replace(config, kl=0.1))
    first = json.loads((Path(config.output) / "metrics.jsonl").read_text().splitlines()[0])
    assert first["ratio"] == pytest.approx(1, abs=1e-6)
    assert first["clip_fraction"] == 0
    assert first["kl"] == pytest.approx(0, abs=1e-6)
    assert first["behaviour_weight"] == pytest.approx(1, abs=1e-4)


def gradient(config: TrainConfig, packer: Any) -> torch.Tensor:
    data = dataset.read(config)
    learner = policy.load(config, result_model(data), None)
    with torch.no_grad():  # away from the start, where half of an adapter has no gradient
        for number, weight in enumerate(learner.trained.values()):
            weight.add_(0.02 * (-1) ** number)
    (step,) = plan(data.with_signal, config, packer, 10_000, data.credit).steps
    for pack in step.packs:
        pack.anchor_logprobs_T = learner.score(pack)[0] + 0.05
        with learner.attending(pack):
            pack_loss(objective(config).rule, learner, step, pack).value.backward()
    return torch.cat([weight.grad.flatten() for weight in learner.trained.values() if weight.grad is not None])


@pytest.mark.parametrize("aggregation", ["token_mean", "rollout_mean", "sequence_mean", "constant"])
def test_the_gradient_does_not_depend_on_the_packs(sampled_store: Stored, config: TrainConfig, aggregation: str):
    """One tree, several trees, or every sample alone: less than 1e-6 apart."""
    sampled_store()
    config = replace(config, aggregation=aggregation, rollouts_per_step=100, kl=0.1)
    whole = gradient(config, pack_tree)
    cut = gradient(config, lambda samples, _: pack_tree(samples, 30))
    rows = gradient(config, pack_rows)
    assert float(whole.abs().max()) > 1e-4
    assert float((whole - cut).abs().max()) < 1e-6
    assert float((whole - rows).abs().max()) < 1e-6


def test_a_resumed_run_ends_with_the_same_bits(sampled_store: Stored, config: TrainConfig, tmp_path: Path):
    """6 steps at once, against 3 and, in another process's place, 3 more."""
    sampled_store()
    straight = train(config)
    other = replace(config, output=str(tmp_path / "other"), snapshot_interval=12)
    train(replace(other, epochs=1))
    resumed = train(replace(other, resume=True))
    assert resumed.steps == straight.steps == 6
    one, two = adapter(straight), adapter(resumed)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_resume_with_other_settings_is_refused(sampled_store: Stored, config: TrainConfig):
    sampled_store()
    train(config)
    with pytest.raises(SettingError, match="other settings"):
        train(replace(config, resume=True, learning_rate=1e-3))


def test_steps_count_rollouts_and_never_turns(sampled_store: Stored, config: TrainConfig):
    sampled_store(tasks=2, samples=4)
    result = train(replace(config, epochs=1, rollouts_per_step=3))
    assert (result.steps, result.rollouts) == (3, 8)


def test_a_second_round_goes_on_from_the_adapter_that_sampled(
    sampled_store: Stored, config: TrainConfig, tiny_model: str
):
    """The adapter is found from the calls, KL to it at step 1 is 0, and another rank's flag does not matter."""
    sampled_store()
    first = train(config)
    data = dataset.read(config)
    changed = [
        origin._replace(version="agentlight-1", adapter_root=str(first.weights)) for origin in data.trajectories.origins
    ]
    assert dataset.start_weights(config, Counter(changed)) == (tiny_model, str(first.weights))
    second = train(replace(config, adapter=str(first.weights), kl=0.1, output=config.output + "2"))
    metrics = json.loads((Path(config.output + "2") / "metrics.jsonl").read_text().splitlines()[0])
    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
    before, after = adapter(first), adapter(second)
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_calls_of_two_policy_versions_are_refused_with_the_flag_to_go_on(tiny_model: str, config: TrainConfig):
    origins = Counter({Origin(tiny_model, None, None): 3, Origin(tiny_model, "a", "/adapters/a"): 5})
    with pytest.raises(SettingError, match=r"2 policy versions .*--adapter DIR"):
        dataset.start_weights(config, origins)
    assert dataset.start_weights(replace(config, adapter="none"), origins) == (tiny_model, None)


def test_a_full_fine_tune_moves_every_layer_and_saves_a_model(
    sampled_store: Stored, config: TrainConfig, tiny_model: str
):
    sampled_store()
    result = train(replace(config, full=True, learning_rate=1e-3))
    assert result.weights is not None
    assert result.weights.name == "model"
    new, old = (AutoModelForCausalLM.from_pretrained(path).state_dict() for path in (result.weights, tiny_model))
    assert all(not torch.equal(new[name], old[name]) for name in old if "proj" in name)


def test_a_dry_run_writes_nothing(sampled_store: Stored, config: TrainConfig):
    sampled_store()
    assert train(replace(config, dry_run=True)).steps == 0
    assert not Path(config.output).exists()


def test_a_loss_that_is_not_finite_stops_before_the_update(sampled_store: Stored, config: TrainConfig):
    sampled_store()
    with pytest.raises(TrainerError, match="nothing was updated"):
        train(replace(config, clip_high=float("nan")))
    assert not (Path(config.output) / "adapter").exists()


def test_the_wrong_model_is_refused_before_step_one(
    sampled_store: Stored, config: TrainConfig, tiny_model: str, tmp_path: Path
):
    """Same shape, other weights: the log ratio tells."""
    sampled_store()
    torch.manual_seed(5)
    AutoModelForCausalLM.from_config(AutoModelForCausalLM.from_pretrained(tiny_model).config).save_pretrained(
        tmp_path / "stranger"
    )
    with pytest.raises(TrainerError, match="not what sampled these rollouts"):
        train(replace(config, model=str(tmp_path / "stranger")))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])
def test_processed_logprobs_agree_at_every_temperature(
    sampled_store: Stored, config: TrainConfig, tiny_model: str, temperature: float
):
    sampled_store(temperature=temperature)
    (gap,) = measured(config, tiny_model).gaps
    assert not gap.raw
    assert gap.mean < 1e-5
    assert gap.known == gap.tokens


@pytest.mark.parametrize("temperature", [0.5, 1.3])
def test_raw_logprobs_are_recognised_from_the_data_and_not_used(
    sampled_store: Stored, config: TrainConfig, tiny_model: str, temperature: float
):
    """vLLM's default: log-probs at temperature 1 of tokens sampled at another."""
    sampled_store(temperature=temperature, raw=True)
    before = measured(config, tiny_model)
    (gap,) = before.gaps
    assert gap.raw
    assert gap.known == 0
    assert gap.mean < 1e-5  # the model is the right one all the same
    assert any("--logprobs-mode processed_logprobs" in warning for warning in before.warnings)


def measured(config: TrainConfig, model: str):
    data = dataset.read(config)
    return look_ahead(config, data, policy.load(config, model, None), model, None).before


def test_undeclared_truncation_shows_in_the_preflight(sampled_store: Stored, config: TrainConfig, tiny_model: str):
    """A server that adds top_k and penalties of its own: what was captured is not what the model gives."""
    sampled_store(temperature=0.5, raw=False, sampling={"temperature": 1.0})
    before = measured(config, tiny_model)
    assert any("mean |log ratio|" in warning for warning in before.warnings)


def test_a_sample_longer_than_the_context_is_left_out_and_said(
    sampled_store: Stored, config: TrainConfig, tiny_model: str
):
    sampled_store()
    data = dataset.read(config)
    long = data.with_signal[0].samples[0]
    long.ids = torch.zeros(300, dtype=torch.int64).numpy()
    long.turns = [replace(turn, stop=300) for turn in long.turns]
    before = look_ahead(config, data, policy.load(config, tiny_model, None), tiny_model, None).before
    assert any("longer than the model's context" in warning for warning in before.warnings)
