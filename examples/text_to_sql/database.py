"""A small in-memory database that answers SELECT statements within limits, and refuses the rest."""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCHEMA = Path(__file__).with_name("schema.sql")
MAX_STEPS = 1_000_000  # of SQLite's virtual machine, some 20 ms: a count, so a slow computer changes nothing
MAX_ROWS = 100
ALLOWED_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
# Named one by one: others can read files (load_extension) or fill the memory (zeroblob, printf).
ALLOWED_FUNCTIONS = frozenset(
    ("abs", "avg", "coalesce", "count", "glob", "like", "lower", "max", "min", "round", "sum", "total", "upper")
)


def run_sql(sql: str) -> list[tuple]:
    """The rows that one statement selects; sqlite3.Error says what is wrong with any other."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(SCHEMA.read_text(encoding="utf-8"))
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(lambda: 1, MAX_STEPS)  # 1 means stop
        selected = connection.execute(sql)
        if selected.description is None:
            raise sqlite3.ProgrammingError("no statement")
        return selected.fetchmany(MAX_ROWS)
    except (sqlite3.Warning, ValueError, UnicodeEncodeError) as error:  # two statements, a NUL, half a character
        raise sqlite3.ProgrammingError(str(error)) from error
    finally:
        connection.close()


def _authorize(action: int, _table: str | None, function: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_OK if str(function).lower() in ALLOWED_FUNCTIONS else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in ALLOWED_ACTIONS else sqlite3.SQLITE_DENY
