"""A call's record is made before its transaction: what a failed one was to write is not taken for written."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from agentlight_store import Choice, Span, Store, new_rollout_id
from agentlight_store.check import check
from agentlight_store.environment import Environment
from agentlight_store.errors import StoreError


def call(turn: int) -> Span:
    messages = [{"role": "user", "content": f"turn {number}"} for number in range(turn + 1)]
    choice = Choice(0, f"answer {turn}", None, "stop", array("I", [turn] * 40), array("f", [-1.0] * 40))
    prompt = array("I", [token for number in range(turn + 1) for token in [7] * 40 + [number] * 40][:-40])
    return Span(model="smol", messages=messages, prompt_ids=prompt, choices=[choice], started_at=10.0 + turn)


@pytest.mark.parametrize("when", ["before", "inside"])
def test_after_a_failed_transaction_everything_is_written_again(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three turns the second fails before its transaction or in it: the third stands on the first alone."""
    rollout_id = new_rollout_id()
    transact = Environment._transact

    def failing(self: Environment, action: Any, *, write: bool) -> Any:
        def abort(txn: Any) -> Any:
            action(txn)
            raise StoreError("the disk is full")

        if when == "before":
            raise StoreError("the disk is full")
        return transact(self, abort, write=write)

    with Store.open(tmp_path / "store", create=True) as store:
        store.append(rollout_id, call(0))
        monkeypatch.setattr(Environment, "_transact", failing)
        with pytest.raises(StoreError, match="full"):
            store.append(rollout_id, call(1))
        monkeypatch.setattr(Environment, "_transact", transact)
        store.append(rollout_id, call(1))
        store.append(rollout_id, call(2))
        spans = store.rollout(rollout_id).spans
    assert [span.messages for span in spans] == [call(turn).messages for turn in range(3)]
    assert [list(span.prompt_ids or ()) for span in spans] == [list(call(turn).prompt_ids or ()) for turn in range(3)]
    assert check(tmp_path / "store") == []


def test_what_is_written_already_is_not_written_again(tmp_path: Path) -> None:
    """Fifty turns with all that was said before: 50 messages and one settings entry, 100 token segments, 50 calls."""
    rollout_id = new_rollout_id()
    with Store.open(tmp_path / "store", create=True) as store:
        empty = store.environment.read(lambda txn: txn.stat()["entries"])
        for turn in range(50):
            store.append(rollout_id, call(turn))
        entries = store.environment.read(lambda txn: txn.stat()["entries"]) - empty
    assert entries == 1 + 51 + 100 + 50
    assert check(tmp_path / "store") == []
