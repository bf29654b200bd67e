"""What a store holds, in numbers: calls by state, tokens, rewards; nothing is judged here."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from agentlight_store.store import Store


def stats(store: Store) -> dict[str, Any]:
    """Counts over the whole store; reward means are over the rollouts that have a finite score of that name."""
    calls: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    models: Counter[str] = Counter()
    rollouts: Counter[str] = Counter()
    rewards: dict[str, list[float]] = {}
    tasks: set[str] = set()
    prompt_tokens = completion_tokens = 0
    for rollout in store.rollouts():
        rollouts[rollout.status] += 1
        if rollout.task_id is not None:
            tasks.add(rollout.task_id)
        for name, value in rollout.rewards.items():
            if math.isfinite(value):
                rewards.setdefault(name, []).append(value)
        prompt_tokens += rollout.prompt_tokens
        completion_tokens += rollout.completion_tokens
        for span in rollout.spans:
            calls[span.status] += 1
            calls["trainable"] += span.trainable
            models[span.policy_version or span.model] += 1
            if span.reason is not None:
                reasons[span.reason] += 1
    return {
        "rollouts": sum(rollouts.values()),
        "rollouts_by_status": dict(rollouts),
        "tasks": len(tasks),
        "calls": sum(calls.values()) - calls["trainable"],
        "calls_by_state": dict(calls),
        "not_trainable_because": dict(reasons),
        "calls_by_model": dict(models),
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "mean_reward": {name: sum(values) / len(values) for name, values in rewards.items()},
    }
