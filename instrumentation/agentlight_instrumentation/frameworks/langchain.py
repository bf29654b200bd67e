"""LangChain and LangGraph: a model is called with metadata that names the agent, or the node of the graph."""

from __future__ import annotations

import sys
from typing import Any

from agentlight_instrumentation.functions import Role, Tool

NAMES = ("lc_agent_name", "langgraph_node")


class Speaker(Role):
    def role(self, arguments: dict[str, Any]) -> str | None:
        metadata = arguments.get("metadata")
        if metadata is None:
            config = sys.modules["langchain_core.runnables.config"].ensure_config(arguments.get("config"))
            metadata = config.get("metadata") or {}
        return next((str(metadata[name]) for name in NAMES if metadata.get(name)), None)


class UsedTool(Tool):
    def used(self, arguments: dict[str, Any]) -> tuple[str, Any]:
        return arguments["self"].name, arguments["tool_input"]

    def gave(self, result: Any) -> Any:
        return getattr(result, "content", result)
