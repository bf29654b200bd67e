"""Why conversations do not extend themselves: every break by its name, with both texts, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentlight_store.lineage import FORK, Break, nodes
from agentlight_store.store import Store

# What to do about a break, by its name.
REMEDIES = {
    "the template dropped reasoning": "keep the reasoning in the history that is sent, or expect a sample a turn",
    "re-tokenised": "the text is the same, the tokens are not: nothing is lost, each such turn is a sample of its own",
    "tool JSON re-serialised": "send back the arguments as the text that came, not parsed and dumped again",
    "history edited": "the agent changes what was said: each changed turn is a sample of its own",
    "compaction": "the agent summarises its history: each summary opens a sample of its own",
    FORK: "parallel calls from one turn: each is a sample of its own, the shared part is trained once",
    "unknown": "compare the ids: the chat template renders the history otherwise than it did before",
}


def findings(store: Store) -> Iterator[dict[str, Any]]:
    """One for each break, in the order of the rollouts; `call` numbers from 1 are those of `show`."""
    for rollout in store.rollouts():
        numbers = {span.span_id: number for number, span in enumerate(rollout.spans, 1)}
        seen: set[str] = set()
        for node in nodes(rollout.spans):
            if node.broke is not None and node.span.span_id not in seen:
                seen.add(node.span.span_id)
                yield {"rollout_id": rollout.rollout_id, "role": node.span.role} | _finding(node.broke, numbers)


def _finding(broke: Break, numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "break": broke.name,
        "call": numbers[broke.after.span_id],
        "continues_call": numbers[broke.before.span_id],
        "sampled": broke.sampled,
        "sent": broke.sent,
        "sampled_ids": broke.sampled_ids,
        "sent_ids": broke.sent_ids,
    }
