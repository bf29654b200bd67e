"""The text-to-SQL example: its reward, its database's limits, and its questions."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "text_to_sql"
QUESTIONS = {
    name: [json.loads(line) for line in (EXAMPLE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    for name in ("train", "heldout")
}
ROME = "SELECT name FROM staff WHERE city = 'Rome'"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
TWELVE_TO_THE_NINTH = " JOIN ".join(f"staff AS s{number}" for number in range(9))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    """Imports a module of the example as the agent does, from its own folder."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in ("agent", "database", "reward"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        (ROME, (0.1, 0.2, 0.7)),
        (ROME + " ORDER BY age", (0.1, 0.2, 0.7)),
        ("SELECT name FROM staff", (0.1, 0.2, 0)),
        ("SELECT surname FROM staff", (0.1, 0, 0)),
        ("SELECT name FROM people", (0.1, 0, 0)),
        ("SELECT name staff WHERE", (0, 0, 0)),
        ("SELECT name FROM", (0, 0, 0)),
        ("SELECT 'Rome", (0, 0, 0)),
        ("SELECT 1; SELECT 2", (0, 0, 0)),
        ("You could ask the sales team.", (0, 0, 0)),
        ("", (0, 0, 0)),
        ("-- nothing", (0, 0, 0)),
    ],
)
def test_each_part_of_the_reward_has_its_weight(load, sql, parts):
    assert load("reward").score(sql, ROME) == pytest.approx(
        dict(zip(("parses", "runs", "right_rows"), parts, strict=True))
    )


def test_order_counts_only_where_the_right_query_orders(load):
    score = load("reward").score
    ordered = "SELECT name FROM staff ORDER BY age"
    assert score("SELECT name FROM staff ORDER BY salary", ordered)["right_rows"] == 0
    assert score("SELECT name FROM staff ORDER BY salary", "SELECT name FROM staff")["right_rows"] == 0.7


def test_a_row_too_many_is_not_right(load):
    twice = f"{ROME} UNION ALL {ROME}"
    assert load("reward").score(twice, ROME)["right_rows"] == 0


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM staff",
        "UPDATE staff SET salary = 0",
        "INSERT INTO staff (name) VALUES ('Mallory')",
        "CREATE TABLE other (name TEXT)",
        "DROP TABLE staff",
        "ATTACH DATABASE 'other.db' AS other",
        "PRAGMA writable_schema = ON",
        "SELECT load_extension('other')",
        "SELECT zeroblob(1000000000)",
    ],
)
def test_anything_but_reading_is_refused(load, tmp_path, monkeypatch, sql):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sqlite3.DatabaseError, match=r"authoriz|prohibited"):
        load("database").run_sql(sql)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sql", [ENDLESS + "count(*) FROM n", f"SELECT count(*) FROM {TWELVE_TO_THE_NINTH}"])
def test_a_query_without_end_stops(load, sql):
    started = time.monotonic()
    with pytest.raises(sqlite3.Error):
        load("database").run_sql(sql)
    assert time.monotonic() - started < 5


def test_a_query_with_many_rows_is_cut(load):
    database = load("database")
    assert len(database.run_sql(ENDLESS + "i FROM n")) == database.MAX_ROWS


@pytest.mark.parametrize("sql", ["SELECT '\0'", "SELECT '\ud800'", "SELECT 1; SELECT 2"])
def test_a_text_that_sqlite_does_not_take_is_an_sqlite_error(load, sql):
    with pytest.raises(sqlite3.Error):
        load("database").run_sql(sql)


@pytest.mark.parametrize("reply", [ROME, f"  {ROME}\n", f"{ROME};\nThis lists them.", f"```sql\n{ROME};\n```"])
def test_the_query_is_found_in_the_reply(load, reply):
    assert load("agent").read_sql(reply) == ROME


def test_an_error_is_shown_to_the_model_behind_its_own_words_unchanged(load):
    agent = load("agent")
    replies = [" SELECT nam FROM staff;\n", ROME]
    asked: list[list] = []

    def create(**request):
        asked.append(list(request["messages"]))
        text = replies[len(asked) - 1]
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    sql, rows = agent.answer(client, "Which people work in Rome?")
    assert (sql, len(rows)) == (ROME, 4)
    assert asked[1][: len(asked[0])] == asked[0]
    assert asked[1][len(asked[0])] == {"role": "assistant", "content": replies[0]}
    assert "no such column: nam" in asked[1][-1]["content"]


def test_the_agent_gives_up_after_three_turns(load):
    agent = load("agent")
    turns = []

    def create(**request):
        turns.append(request)
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="no idea"))])

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    assert agent.answer(client, "Why?") == ("no idea", None)
    assert len(turns) == 3


def test_no_question_is_in_both_sets_nor_among_the_worked_examples(load):
    worked = [question for question, _ in load("agent").WORKED_EXAMPLES]
    asked = [row["question"] for rows in QUESTIONS.values() for row in rows]
    assert len({question.lower() for question in asked + worked}) == len(asked + worked)
    queries = [row["sql"] for rows in QUESTIONS.values() for row in rows]
    assert len(set(queries)) == len(queries)


def test_ids_are_unique():
    ids = [row["id"] for rows in QUESTIONS.values() for row in rows]
    assert len(set(ids)) == len(ids) == 8 + 12


@pytest.mark.parametrize("row", [row for rows in QUESTIONS.values() for row in rows], ids=lambda row: row["id"])
def test_the_right_query_of_each_question_gives_rows_and_the_full_reward(load, row):
    rows = load("database").run_sql(row["sql"])
    assert rows and rows[0] != (None,)
    assert sum(load("reward").score(row["sql"], row["sql"]).values()) == pytest.approx(1)


def test_the_worked_examples_are_right(load):
    for _, sql in load("agent").WORKED_EXAMPLES:
        assert load("database").run_sql(sql)
