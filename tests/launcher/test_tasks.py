"""Rows of a task file become commands; a mistake in them is one line with the row's number."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentlight_run.tasks import TaskError, fill, missing, read_tasks


@pytest.fixture
def rows(tmp_path: Path) -> Any:
    def write(*lines: Any) -> Path:
        path = tmp_path / "tasks.jsonl"
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    return write


def test_fields_replace_their_placeholders_and_nothing_else_changes() -> None:
    row = {"q": "what {x}?", "n": 3, "ok": True, "list": [1, "é"], "none": None, "a-b": "dash"}
    values = {
        "{q}": "what {x}?",
        "--n={n}": "--n=3",
        "{ok} {none} {list}": 'true null [1, "é"]',
        "{a-b}": "dash",
        '{"a": {"b": 1}}': '{"a": {"b": 1}}',
        "${HOME} {} {0} { q }": "${HOME} {} {0} { q }",
    }
    assert {argument: fill(argument, row, "line 1") for argument in values} == values


def test_ids_come_from_the_row_or_from_its_content(rows: Any) -> None:
    tasks = read_tasks(rows({"id": "a"}, {"task_id": 7}, "", {"x": 1, "y": 2}, {"id": None, "x": 1}), ["run"])
    assert [task.task_id for task in tasks[:2]] == ["a", "7"]
    assert len(tasks[2].task_id) == 16
    again = read_tasks(rows({"y": 2, "x": 1}), ["run"])
    assert again[0].task_id == tasks[2].task_id != tasks[3].task_id


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"q": 1}', "{oops"], "line 2 is not JSON"),
        (['{"q": 1}', "", "[1]"], "line 3 is JSON, but not an object"),
        (['{"q": 1}', '{"r": 1}'], "line 2 has no field 'q', which the command asks for (its fields: r)"),
        (['{"id": 1, "q": 1}', '{"id": "1", "q": 2}'], "line 2: the id '1' is taken by line 1, whose row differs"),
        (['{"q": "a\\u0000b"}'], "line 1 holds a NUL character"),
        (['{"q": "\\ud800"}'], "line 1 holds a character that no argument"),
        ([json.dumps({"q": "x" * 140_000})], "line 1: 140,000 bytes are more than an argument can have"),
        ([""], "has no rows"),
    ],
)
def test_a_bad_row_is_named(rows: Any, lines: list[str], message: str) -> None:
    with pytest.raises(TaskError) as raised:
        read_tasks(rows(*lines), ["run", "{q}"])
    assert message in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="No such file"):
        read_tasks(tmp_path / "nosuch", ["run"])
    (tmp_path / "binary").write_bytes(b'{"q": "\xff"}')
    with pytest.raises(TaskError, match="is not UTF-8"):
        read_tasks(tmp_path / "binary", ["run"])


def test_equal_rows_are_one_task(rows: Any) -> None:
    (task,) = read_tasks(rows({"a": 1}, {"a": 1}), ["run"])
    assert task.lines == [1, 2]


def test_every_task_runs_once_before_any_runs_twice(rows: Any) -> None:
    tasks = read_tasks(rows({"id": "a"}, {"id": "b"}, {"id": "c"}), ["run"])
    order = [task.task_id for task in missing(tasks, 2, Counter())]
    assert order == ["a", "b", "c", "a", "b", "c"]
    order = [task.task_id for task in missing(tasks, 2, Counter(a=1, b=3))]
    assert order == ["c", "a", "c"]
