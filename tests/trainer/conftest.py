"""A tiny real model on disk, and stores that hold what it really sampled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rollouts import sample, span, write_rollout
from transformers import AutoModelForCausalLM, LlamaConfig

VOCABULARY = 64

torch.set_num_threads(1)  # these models gain nothing from a second, and wait for it on a busy machine


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Llama of 30,000 random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,  # far from uniform, so that a wrong log-prob is seen
        bos_token_id=1,
        eos_token_id=2,
    )
    path = tmp_path_factory.mktemp("model") / "tiny"
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    return str(path)


@pytest.fixture
def sampled_store(tiny_model: str, tmp_path: Path) -> Callable[..., Path]:
    """Rollouts of two turns that the tiny model sampled; the reward is the share of even tokens."""

    def make(tasks: int = 3, samples: int = 4, temperature: float = 1.0, raw: bool = False, **changes: Any) -> Path:
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
        path = tmp_path / "store"
        for task in range(tasks):
            opening = torch.randint(0, VOCABULARY, (10,)).tolist()
            for _ in range(samples):
                first, first_logprobs = sample(model, opening, 4, temperature, raw)
                later = [*opening, *first, 7, 8, 9]
                second, second_logprobs = sample(model, later, 5, temperature, raw)
                given = {"model_root": tiny_model, "sampling": {"temperature": temperature}} | changes
                spans = [
                    span(opening, first, first_logprobs, **given),
                    span(later, second, second_logprobs, **given),
                ]
                even = [token % 2 == 0 for token in first + second]
                write_rollout(path, spans, sum(even) / len(even), task_id=f"task {task}")
        return path

    return make
