"""Why a server died, from the log that it left; only text is read."""

from __future__ import annotations

import re
from pathlib import Path

# "(EngineCore pid=12) ERROR 12-01 02:56:50 [core.py:12] "
PREFIX = re.compile(r"^(\([^)]*pid=\d+\) ?)?([A-Z]+ \d\d-\d\d [\d:]+ \[[^\]]*\] ?)?")
ERROR = re.compile(r"^\s*([\w.]*(Error|Exception|Interrupt)\b|usage:|\S+: error:|error:)")
CONSEQUENCE = "See root cause above"  # vLLM's API server says this of what its engine has said before


def causes(log: Path, most: int = 3) -> list[str]:
    """The lines that name an error, the first ones first; the log's last lines when none does."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = [PREFIX.sub("", line).rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line.strip()]
    errors = [line.strip() for line in lines if ERROR.match(line) and CONSEQUENCE not in line]
    return list(dict.fromkeys(errors))[:most] or lines[-most:]
