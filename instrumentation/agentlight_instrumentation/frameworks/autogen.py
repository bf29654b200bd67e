"""AutoGen: an agent answers messages under its name; a tool is run with a mapping of arguments."""

from __future__ import annotations

from typing import Any

from agentlight_instrumentation.functions import Role, Tool


class Speaker(Role):
    def role(self, arguments: dict[str, Any]) -> str | None:
        return arguments["self"].name


class UsedTool(Tool):
    def used(self, arguments: dict[str, Any]) -> tuple[str, Any]:
        return arguments["self"].name, dict(arguments["args"])
