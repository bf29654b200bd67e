"""Calls and rollouts for the trainer's tests, written by hand or sampled from a model."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import torch

from agentlight_store import Choice, Span, Store, new_rollout_id


def span(prompt: list[int], completion: list[int], logprobs: list[float] | None = None, **changes: Any) -> Span:
    """One good call, as the instrumentation would record it."""
    choice = Choice(
        completion_ids=array("I", completion),
        completion_logprobs=array("f", logprobs if logprobs is not None else [-1.0] * len(completion)),
    )
    given: dict[str, Any] = {
        "prompt_ids": array("I", prompt),
        "choices": [choice],
        "trainable": True,
        "sampling": {"temperature": 1.0},
        "model": "tiny",
        "started_at": 1.0,
    }
    return Span(**given | changes)


def write_rollout(
    path: Path, spans: list[Span], reward: float | None, task_id: str | None = "task", **header: Any
) -> str:
    store = Store.open(path, create=True)
    rollout = new_rollout_id()
    store.begin_rollout(rollout, task_id=task_id)
    for number, call in enumerate(spans):
        call.started_at = float(number + 1)
        store.append(rollout, call)
    if reward is not None:
        store.add_reward(rollout, reward)
    store.end_rollout(rollout, status="ok", **header)
    return rollout


@torch.no_grad()
def sample(model: Any, prompt: list[int], length: int, temperature: float, raw: bool) -> tuple[list[int], list[float]]:
    ids, logprobs = list(prompt), []
    for _ in range(length):
        logits = model(torch.tensor([ids])).logits[0, -1]
        token = int(torch.multinomial((logits / temperature).softmax(-1), 1))
        logprobs.append(float((logits if raw else logits / temperature).log_softmax(-1)[token]))
        ids.append(token)
    return ids[len(prompt) :], logprobs
