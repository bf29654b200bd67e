"""What a store holds, in numbers: calls by state, tokens, rewards; nothing is judged here."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from agentlight_store.headers import DROPPED
from agentlight_store.store import Store


def stats(store: Store) -> dict[str, Any]:
    """Counts over the whole store; reward means are over the rollouts that have a finite score of that name.

    `trajectory_collection_rate` is the share of rollouts with a reward and a call that can be trained on,
    `agent.step.timeout_rate` the share of calls that ended in a timeout.
    """
    calls: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    models: Counter[str] = Counter()
    rollouts: Counter[str] = Counter()
    rewards: dict[str, list[float]] = {}
    arms: dict[str, list[float]] = {"policy": [], "own": []}
    dropped = Counter(header[DROPPED] for _, header in store.headers() if DROPPED in header)
    tasks: set[str] = set()
    prompt_tokens = completion_tokens = timed_out = collected = 0
    for rollout in store.rollouts():
        rollouts[rollout.status] += 1
        if rollout.task_id is not None:
            tasks.add(rollout.task_id)
        if rollout.arm is not None and rollout.reward is not None:
            arms[rollout.arm].append(rollout.reward)
        for name, value in rollout.rewards.items():
            if math.isfinite(value):
                rewards.setdefault(name, []).append(value)
        collected += rollout.reward is not None and any(span.trainable for span in rollout.spans)
        prompt_tokens += rollout.prompt_tokens
        completion_tokens += rollout.completion_tokens
        for span in rollout.spans:
            calls[span.status] += 1
            calls["trainable"] += span.trainable
            timed_out += span.timed_out
            models[span.policy_version or span.model] += 1
            if span.reason is not None:
                reasons[span.reason] += 1
    made = sum(calls.values()) - calls["trainable"]
    return {
        "rollouts": sum(rollouts.values()),
        "rollouts_by_status": dict(rollouts),
        "tasks": len(tasks),
        "trajectory_collection_rate": collected / sum(rollouts.values()) if rollouts else None,
        "calls": made,
        "calls_by_state": dict(calls),
        "not_trainable_because": dict(reasons),
        "agent.step.timeout_rate": timed_out / made if made else None,
        "calls_by_model": dict(models),
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "mean_reward": {name: sum(values) / len(values) for name, values in rewards.items()},
        **({"rollouts_dropped_because": dict(dropped)} if dropped else {}),
        **({"canary": _canary(arms)} if any(arms.values()) else {}),
    }


def _canary(arms: dict[str, list[float]]) -> dict[str, Any]:
    """`policy_improvement_ratio` is the mean reward of the policy's rollouts over that of the agent's own server."""
    means = {arm: sum(values) / len(values) if values else None for arm, values in arms.items()}
    ratio = means["policy"] / means["own"] if means["policy"] is not None and means["own"] else None
    return {
        "policy_improvement_ratio": ratio,
        **{f"mean_reward_{arm}": mean for arm, mean in means.items()},
        **{f"scored_rollouts_{arm}": len(values) for arm, values in arms.items()},
    }
