"""The OpenAI Agents SDK: a turn is run for an agent, whose name is the role; a function tool is called with JSON."""

from __future__ import annotations

from typing import Any

from agentlight_instrumentation.functions import Role, Tool


class Speaker(Role):
    def role(self, arguments: dict[str, Any]) -> str | None:
        return arguments["bindings"].public_agent.name


class UsedTool(Tool):
    def used(self, arguments: dict[str, Any]) -> tuple[str, Any]:
        return arguments["function_tool"].name, arguments["arguments"]

    def gave(self, result: Any) -> Any:
        return result.output
