"""Checkpoints: complete or not there at all."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from agentlight_trainer import checkpoint
from agentlight_trainer.policy import Policy


def policy(model: str) -> Policy:
    return Policy(AutoModelForCausalLM.from_pretrained(model))


def test_a_truncated_file_is_noticed_and_the_previous_checkpoint_is_used(tiny_model: str, tmp_path: Path):
    learner = policy(tiny_model)
    checkpoint.save(tmp_path, learner, 1, "run")
    checkpoint.save(tmp_path, learner, 2, "run")
    weights = tmp_path / "step-000002" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    found, passed_over = checkpoint.newest(tmp_path, "run")
    assert found is not None
    assert found.step == 1
    assert "step-000002 is damaged (weights.safetensors)" in passed_over[0]


def test_a_folder_without_its_marker_is_not_a_checkpoint(tiny_model: str, tmp_path: Path):
    """What a process killed while writing leaves behind."""
    checkpoint.save(tmp_path, policy(tiny_model), 1, "run")
    (tmp_path / "step-000001" / checkpoint.MARKER).unlink()
    assert checkpoint.newest(tmp_path, "run")[0] is None


def test_a_checkpoint_of_another_run_is_not_taken(tiny_model: str, tmp_path: Path):
    checkpoint.save(tmp_path, policy(tiny_model), 1, "run")
    assert checkpoint.newest(tmp_path, "other")[0] is None


def test_weights_optimizer_and_schedule_come_back(tiny_model: str, tmp_path: Path):
    learner, other = policy(tiny_model), policy(tiny_model)
    for weight in learner.trained.values():
        weight.grad = torch.ones_like(weight)
    learner.step(1.0)
    checkpoint.save(tmp_path, learner, 1, "run")
    found, _ = checkpoint.newest(tmp_path, "run")
    assert found is not None
    checkpoint.restore(found, other)
    assert all(torch.equal(weight, other.trained[name]) for name, weight in learner.trained.items())
    assert other.optimizer.state_dict()["state"][0]["step"] == 1
    assert other.scheduler.last_epoch == 1


def test_old_checkpoints_make_room(tiny_model: str, tmp_path: Path):
    learner = policy(tiny_model)
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, learner, step, "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000002", "step-000003"]
