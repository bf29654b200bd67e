"""How good a query is: does it parse, does it run, does it give the rows that the right query gives."""

from __future__ import annotations

import sqlite3
from collections import Counter

from database import run_sql

WEIGHTS = {"parses": 0.1, "runs": 0.2, "right_rows": 0.7}
SYNTAX_ERRORS = ("syntax error", "incomplete input", "unrecognized token", "one statement at a time", "no statement")


def score(sql: str, expected_sql: str) -> dict[str, float]:
    """The parts of the reward, already weighted: their sum is between 0 and 1."""
    parses = runs = right_rows = False
    try:
        rows = run_sql(sql)
        parses = runs = True
        right_rows = _same_rows(rows, run_sql(expected_sql), ordered="order by" in expected_sql.lower())
    except sqlite3.Error as error:
        parses = not any(words in str(error) for words in SYNTAX_ERRORS)
    reached = {"parses": parses, "runs": runs, "right_rows": right_rows}
    return {part: weight * reached[part] for part, weight in WEIGHTS.items()}


def _same_rows(rows: list[tuple], expected: list[tuple], ordered: bool) -> bool:
    def rounded(row: tuple) -> tuple:
        return tuple(round(value, 6) if isinstance(value, float) else value for value in row)

    got, wanted = [rounded(row) for row in rows], [rounded(row) for row in expected]
    return got == wanted if ordered else Counter(got) == Counter(wanted)
