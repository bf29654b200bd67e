"""LangChain and LangGraph: a model is called with metadata that names the agent, or the node of the graph.

A chain has no name: its role is made of its system prompt's first words.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from agentlight_instrumentation.functions import Role, Tool

NAMES = ("lc_agent_name", "langgraph_node")
COMMON = ("a", "an", "are", "as", "the", "you", "your")


class Speaker(Role):
    def role(self, arguments: dict[str, Any]) -> str | None:
        metadata = arguments.get("metadata")
        if metadata is None:
            config = sys.modules["langchain_core.runnables.config"].ensure_config(arguments.get("config"))
            metadata = config.get("metadata") or {}
        named = next((str(metadata[name]) for name in NAMES if metadata.get(name)), None)
        return named or _name_of(_system_prompt(arguments))


def _system_prompt(arguments: dict[str, Any]) -> str:
    messages: Any = arguments["messages"][0] if arguments.get("messages") else arguments.get("input")
    messages = messages.to_messages() if hasattr(messages, "to_messages") else messages
    first: Any = messages[0] if isinstance(messages, list) and messages else None
    text = first.content if getattr(first, "type", "") == "system" else ""
    return text if isinstance(text, str) else ""


def _name_of(prompt: str) -> str | None:
    """Three words, without the ones that all system prompts begin with; digits, as of dates, are no words."""
    words = [word for word in re.findall(r"[^\W\d_]+", prompt[:200].lower()) if word not in COMMON]
    return "-".join(words[:3]) or None


class UsedTool(Tool):
    def used(self, arguments: dict[str, Any]) -> tuple[str, Any]:
        return arguments["self"].name, arguments["tool_input"]

    def gave(self, result: Any) -> Any:
        return getattr(result, "content", result)
