"""Agent Lightning: what an agent emits through it is recorded as it is, with or without a tracer of its own."""

from __future__ import annotations

from typing import Any

from agentlight_instrumentation import rewards
from agentlight_instrumentation.context import current_role, scored_rollout
from agentlight_instrumentation.functions import Observer
from agentlight_instrumentation.sink import store

EMITTED = "Agent Lightning"


class Reward(Observer):
    """Recorded when it is handed over: Agent Lightning raises where no tracer of its own is active."""

    def started(self, arguments: dict[str, Any]) -> Any:
        value, primary = arguments["reward"], arguments.get("primary_key")
        if isinstance(value, dict) and primary in value:
            value = {**value, rewards.FINAL: value[primary]}
        rewards.emit(value, source=EMITTED)
        return ()


class DecoratedReward(Observer):
    """A function under its `@reward` decorator, where AgentOps traces it."""

    def started(self, arguments: dict[str, Any]) -> Any:
        rewards.emit(arguments["result"], source=EMITTED)
        return ()


class Event(Observer):
    """A message, an object, an annotation or an exception: an observation of that name."""

    def started(self, arguments: dict[str, Any]) -> Any:
        kind, content = next(iter(arguments.items()))
        if isinstance(content, BaseException):
            content = {"type": type(content).__name__, "message": str(content)}
        if not _is_reward(content):
            rollout_id, attributes = scored_rollout(), arguments.get("attributes")
            content = {"content": content, "attributes": attributes} if attributes else content
            store().add_event(rollout_id, kind="observation", name=kind, role=current_role(), content=content)
        return ()


def _is_reward(content: Any) -> bool:
    """An annotation that `emit_reward` makes."""
    return isinstance(content, dict) and any(str(name).startswith("agentlightning.reward") for name in content)
