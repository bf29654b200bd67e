"""Rows for other tools, and the doctor's findings, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spans import make_span

from agentlight_store import Span, Store
from agentlight_store.cli import main

ASKED, AGAIN = {"role": "user", "content": "how many?"}, {"role": "user", "content": "sure?"}


def turn(prompt: list[int], completion: list[int], text: str, messages: list[Any], started_at: float) -> Span:
    span = make_span(prompt, completion, messages=messages, started_at=started_at)
    span.choices[0].text = text
    return span


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A rollout of two turns with reward 1, one of a single call with reward 0, and an unscored one."""
    path = tmp_path / "store"
    with Store.open(path, create=True) as store:
        turns = [
            turn([1, 2], [3], "three", [ASKED], 1.0),
            turn([1, 2, 3, 4], [5], "yes", [ASKED, reply("three"), AGAIN], 2.0),
        ]
        for name, spans, reward in (("aa", turns, 1.0), ("bb", turns[:1], 0.0), ("cc", turns[:1], None)):
            store.begin_rollout(name * 16, task_id="t")
            for span in spans:
                store.append(name * 16, span)
            if reward is not None:
                store.add_reward(name * 16, reward)
    return str(path)


def exported(path: str, tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    out = str(tmp_path / "out.jsonl")
    assert main(["export", path, "--output", out, *options]) == 0
    return [json.loads(line) for line in Path(out).read_text().splitlines()]


def test_transitions_are_state_action_reward_and_next_state(path: str, tmp_path: Path) -> None:
    """The reward falls on the last step; an unscored rollout has none, which is not 0."""
    rows = exported(path, tmp_path, "--format", "transitions")
    told = [(row["state"], row["action"], row["reward"], row["next_state"], row["done"]) for row in rows]
    assert told == [
        ([1, 2], [3], 0.0, [1, 2, 3, 4], False),
        ([1, 2, 3, 4], [5], 1.0, None, True),
        ([1, 2], [3], 0.0, None, True),
        ([1, 2], [3], None, None, True),
    ]


def test_sft_is_one_whole_chat_of_each_good_rollout(path: str, tmp_path: Path) -> None:
    """At least reward 0.5: one rollout, whose last call holds the earlier turn."""
    (row,) = exported(path, tmp_path, "--format", "sft", "--min-reward", "0.5")
    assert row["messages"] == [ASKED, reply("three"), AGAIN, reply("yes")]


def test_trl_and_verl_rows_have_the_columns_that_those_read(path: str, tmp_path: Path) -> None:
    rows = exported(path, tmp_path, "--format", "trl")
    assert [(row["prompt"][-1], row["completion"], row["reward"]) for row in rows[:2]] == [
        (ASKED, [reply("three")], 1.0), (AGAIN, [reply("yes")], 1.0),
    ]  # fmt: skip
    assert rows[1]["completion_ids"] == [5] and len(rows[1]["logprobs"]) == 1
    rows = exported(path, tmp_path, "--format", "verl")
    assert [row["prompt"] for row in rows] == [[ASKED]] * 3
    assert {"data_source", "reward_model", "extra_info", "ability"} < set(rows[0])


def test_parquet_holds_the_same_rows(path: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = str(tmp_path / "out.parquet")
    assert main(["export", path, "--format", "trl", "--output", out]) == 0
    assert parquet.read_table(out).to_pylist() == exported(path, tmp_path, "--format", "trl")


def test_a_file_that_cannot_be_written_is_one_line(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "none" / "out.jsonl")
    assert main(["export", path, "--format", "sft", "--output", out]) == 2
    assert capsys.readouterr().err == f"agentlight-store: cannot write {out}: No such file or directory\n"


def test_the_doctor_names_each_break_with_both_texts(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to say of the good store; then a turn whose earlier reply comes back as other tokens."""
    assert main(["doctor", path]) == 0
    assert capsys.readouterr().out == f"{path}: every conversation extends itself\n"
    with Store.open(path) as store:
        store.append("aa" * 16, make_span([1, 2, 9, 4], [5], messages=[ASKED, reply("three"), AGAIN], started_at=3.0))
    assert main(["doctor", path, "--json"]) == 0
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["break"], line["call"], line["continues_call"]) == ("re-tokenised", 3, 1)
    assert (line["sampled"], line["sent"], line["sampled_ids"], line["sent_ids"]) == ("three", "three", [3], [9, 4])
    assert main(["doctor", path]) == 0
    assert capsys.readouterr().out.endswith(f"{path}: 1 breaks\n")
