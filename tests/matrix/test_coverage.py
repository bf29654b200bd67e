"""docs/coverage.md is of this matrix, and of a run in which all was well."""

from __future__ import annotations

from coverage_table import DOCUMENT
from environments import ENVIRONMENTS


def test_each_program_of_each_environment_has_its_row() -> None:
    rows = [line.split("|")[1:-1] for line in DOCUMENT.read_text().splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in row] for row in rows]
    expected = [[one.name, one.python, program] for one in ENVIRONMENTS for program in one.programs]
    assert [[row[0], row[1], row[3]] for row in cells] == expected
    assert {row[-1] for row in cells} == {"same, all recorded"}
