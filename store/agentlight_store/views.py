"""What `agentlight-store` prints with --json: the contract of `ls` and `show`, made from what is read back."""

from __future__ import annotations

import json
import math
from typing import Any

from agentlight_store.rollout import Rollout
from agentlight_store.span import Choice, Span


def rollout_line(rollout: Rollout) -> dict[str, Any]:
    """One line of `ls --json`."""
    return {
        "rollout_id": rollout.rollout_id,
        "task_id": rollout.task_id,
        "status": rollout.status,
        "exit_code": rollout.exit_code,
        "calls": rollout.calls,
        "prompt_tokens": rollout.prompt_tokens,
        "completion_tokens": rollout.completion_tokens,
        "rewards": {name: finite(value) for name, value in rollout.rewards.items()},
        "reward": rollout.reward,
        "started_at": rollout.started_at,
        "ended_at": rollout.ended_at,
    }


def span_line(span: Span, task_id: str | None) -> dict[str, Any]:
    """One line of `show --json`: a call; with n > 1 the fields of its first choice, and all under `choices`."""
    first = span.choices[0] if span.choices else Choice()
    line = {
        "rollout_id": span.rollout_id,
        "task_id": task_id,
        "span_id": span.span_id,
        "role": span.role,
        "pid": span.pid,
        "model": span.model,
        "model_root": span.model_root,
        "dialect": span.dialect,
        "server": span.server,
        "messages": span.messages,
        "tools": span.tools,
        **_choice(first),
        "prompt_ids": None if span.prompt_ids is None else list(span.prompt_ids),
        "sampling": span.sampling,
        "usage": span.usage,
        "status": span.status,
        "trainable": span.trainable,
        "reason": span.reason,
        "error": span.error,
        "policy_version": span.policy_version,
        "adapter_root": span.adapter_root,
        "started_at": span.started_at,
        "ended_at": span.ended_at,
        "http_status": span.http_status,
    }
    if span.raw is not None:
        line["raw"] = span.raw.decode(errors="replace")
    if len(span.choices) > 1:
        line["choices"] = [{"index": choice.index, **_choice(choice)} for choice in span.choices]
    return line


def _choice(choice: Choice) -> dict[str, Any]:
    logprobs = choice.completion_logprobs
    return {
        "text": choice.text,
        "tool_calls": choice.tool_calls,
        "finish_reason": choice.finish_reason,
        "completion_ids": None if choice.completion_ids is None else list(choice.completion_ids),
        "completion_logprobs": None if logprobs is None else [finite(value) for value in logprobs],
    }


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def as_json(line: dict[str, Any]) -> str:
    # ASCII: a lone surrogate in a captured string stays printable on any terminal.
    return json.dumps(line, ensure_ascii=True, default=repr)
