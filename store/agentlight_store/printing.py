"""How `agentlight-store` prints: JSON lines, or a table for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from agentlight_store.views import as_json


def print_json(lines: Iterable[dict[str, Any]]) -> int:
    for line in lines:
        print(as_json(line))
    return 0


def print_table(header: list[str], rows: list[list[str]]) -> int:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=None, pad_edge=False, show_header=any(header))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # Piped into a file or another program, a row is neither folded nor cut.
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)
    return 0


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
