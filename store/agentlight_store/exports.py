"""A store's rollouts as rows for other tools: transitions, chats for fine-tuning, and what TRL and verl read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from agentlight_store.errors import AgentlightError
from agentlight_store.lineage import Node, nodes
from agentlight_store.rollout import Rollout
from agentlight_store.views import as_json, finite

Row = dict[str, Any]


class ExportError(AgentlightError):
    """The file cannot be written, or its format needs a library that is missing."""


def transitions(rollout: Rollout) -> Iterator[Row]:
    """(state, action, reward, next state) of each call with ids; the reward falls on the last one, None is unscored.

    The next state is the prompt of the call that continues this one; null ends the conversation.
    """
    used = [node for node in nodes(span for span in rollout.spans if span.trainable) if node.opened]
    following = {id(node.parent): node for node in reversed(used) if node.parent is not None}
    for number, node in enumerate(used):
        after, is_last = following.get(id(node)), number == len(used) - 1
        yield _about(rollout, node) | {
            "step": number,
            "state": list(node.span.prompt_ids or ()),
            "state_messages": node.span.messages,
            "action": list(node.choice.completion_ids or ()),
            "action_text": node.choice.text,
            "reward": None if rollout.reward is None else rollout.reward if is_last else 0.0,
            "next_state": None if after is None else list(after.span.prompt_ids or ()),
            "done": is_last,
        }


def sft(rollout: Rollout) -> Iterator[Row]:
    """One chat a conversation, whole up to its last completion, in the form that chat fine-tuning reads."""
    good = [node for node in nodes(span for span in rollout.spans if span.status == "ok") if node.opened]
    for node in good:
        if not node.is_continued:
            yield _about(rollout, node) | {
                "messages": [*node.span.messages, _reply(node)],
                "tools": node.span.tools,
                "reward": rollout.reward,
            }


def trl(rollout: Rollout) -> Iterator[Row]:
    """One row a call, conversational `prompt` and `completion`, with the ids and log-probs that were sampled."""
    for node in nodes(span for span in rollout.spans if span.trainable):
        if node.opened:
            logprobs = node.choice.completion_logprobs
            yield _about(rollout, node) | {
                "prompt": node.span.messages,
                "completion": [_reply(node)],
                "reward": rollout.reward,
                "prompt_ids": list(node.span.prompt_ids or ()),
                "completion_ids": list(node.choice.completion_ids or ()),
                "logprobs": None if logprobs is None else [finite(value) for value in logprobs],
            }


def verl(rollout: Rollout) -> Iterator[Row]:
    """The prompt that opened the rollout, as verl's datasets name things; what the agent's task was is extra."""
    opening = next((span for span in rollout.spans if span.status == "ok"), None)
    if opening is not None:
        yield {
            "data_source": "agentlight",
            "prompt": opening.messages,
            "ability": opening.role,
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {
                "rollout_id": rollout.rollout_id, "task_id": rollout.task_id, "task": as_json(rollout.task or {}),
                "reward": rollout.reward,
            },
        }  # fmt: skip


def _about(rollout: Rollout, node: Node) -> Row:
    return {"rollout_id": rollout.rollout_id, "task_id": rollout.task_id, "role": node.span.role}


def _reply(node: Node) -> Row:
    reply: Row = {"role": "assistant", "content": node.choice.text or ""}
    return reply | ({"tool_calls": node.choice.tool_calls} if node.choice.tool_calls else {})


FORMATS: dict[str, Callable[[Rollout], Iterator[Row]]] = {
    "transitions": transitions,
    "sft": sft,
    "trl": trl,
    "verl": verl,
}


def rows(rollouts: Iterable[Rollout], form: str, min_reward: float | None) -> Iterator[Row]:
    """Of all rollouts, or of those with at least `min_reward`; an unscored one is left out then."""
    for rollout in rollouts:
        if min_reward is None or (rollout.reward is not None and rollout.reward >= min_reward):
            yield from FORMATS[form](rollout)


def write(found: Iterable[Row], path: str) -> int:
    """JSONL, or Parquet for a name that ends so; returns the number of rows. Raises ExportError."""
    aside, number = Path(f"{path}.new"), 0
    try:
        if path.endswith(".parquet"):
            number = _write_parquet(list(found), aside)
        else:
            with aside.open("w") as file:
                for row in found:
                    file.write(as_json(row) + "\n")
                    number += 1
        aside.replace(path)
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        aside.unlink(missing_ok=True)
    return number


def _write_parquet(found: list[Row], path: Path) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ExportError(
            f"{path.stem} is Parquet, which needs pyarrow: pip install pyarrow, or name a .jsonl"
        ) from None
    try:
        table = pyarrow.Table.from_pylist(found)
    except pyarrow.ArrowInvalid:  # messages whose content is now a text, now a list: as JSON they are of one type
        table = pyarrow.Table.from_pylist([{name: _flat(value) for name, value in row.items()} for row in found])
    pyarrow.parquet.write_table(table, path)
    return len(found)


def _flat(value: Any) -> Any:
    is_flat = isinstance(value, list) and all(isinstance(one, (int, float)) for one in value)
    return json.dumps(value, default=repr) if isinstance(value, (list, dict)) and not is_flat else value
