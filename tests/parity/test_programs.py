"""Small programs over the kinds of fault that launchers and tracers are reported for: each behaves as without us."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from parity.observe import Program, differences, run_both

PROGRAMS = [Program.read(path) for path in sorted((Path(__file__).parent / "programs").glob("*.py"))]


def cases() -> list[Any]:
    found = []
    for program in PROGRAMS:
        marks = [pytest.mark.slow] if program.slow else []
        if sys.version_info < tuple(map(int, program.since.split("."))):
            marks.append(pytest.mark.skip(reason=f"Python {program.since} has what it uses"))
        if program.fails:
            marks.append(pytest.mark.xfail(strict=True, reason=program.fails))
        for kind in program.server.split():
            found.append(pytest.param(program, kind, id=f"{program.path.stem}-{kind}", marks=marks))
    return found


@pytest.mark.parametrize(("program", "kind"), cases())
def test_a_program_behaves_as_it_does_without_the_launcher(program: Program, kind: str, tmp_path: Path) -> None:
    """Output, status, requests and the state of each process are the same, and every call is recorded."""
    for package in program.needs.split():
        pytest.importorskip(package)
    bare, launched = run_both(program, tmp_path, kind)
    found = differences(bare, launched, kind)
    assert not found, json.dumps(found, indent=1, default=repr)
    if not program.unfinished:
        assert launched.said, "no closing line"
        calls = 0 if program.unseen else launched.calls + int(program.elsewhere)
        assert launched.recorded == calls, launched.said
        warned = [line for line in launched.said if "not everything was recorded" in line or "did not start" in line]
        assert not warned or program.unseen, warned


def test_the_corpus_has_sixty_programs_each_with_a_kind():
    """The docstring's number is that of a case in the list of reported faults, or 0 where there is none."""
    assert len(PROGRAMS) >= 60
    for program in PROGRAMS:
        assert program.path.read_text().startswith('"""'), program.path
