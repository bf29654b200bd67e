"""Appending and reading back: what goes in comes out, what cannot be held costs its field only, errors name things."""

from __future__ import annotations

import os
import stat
from array import array
from pathlib import Path

import lmdb
import pytest
from spans import make_span

from agentlight_store import Choice, Span, Store, new_rollout_id
from agentlight_store.check import check
from agentlight_store.environment import VERSION_KEY
from agentlight_store.errors import StoreError, StoreMissing, StoreVersionError, UnknownRollout


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store", create=True) as store:
        yield store


def test_a_span_comes_back_as_it_went_in(store: Store) -> None:
    """Every field, ids and log-probs with their exact values, NaN included."""
    rollout_id = new_rollout_id()
    span = Span(
        role="planner", pid=7, dialect="openai_chat", server="h:1", model="m", model_root="/base", policy_version="a1",
        adapter_root="/a1", messages=[{"role": "user", "content": "ü\n"}], tools=[{"function": {"name": "f"}}],
        prompt_ids=array("I", [0, 1, 2**32 - 1]), sampling={"temperature": 0.7, "n": 2},
        choices=[Choice(0, "a", None, "stop", array("I", [5, 6]), array("f", [-0.5, float("nan")])),
                 Choice(1, None, [{"id": "x"}], "tool_calls", array("I", []), array("f", []))],
        usage={"input_tokens": 3, "output_tokens": 2}, status="ok", trainable=True, reason=None, http_status=200,
        started_at=1000.25, ended_at=1001.5, error=None,
    )  # fmt: skip
    span_id = store.append(rollout_id, span)
    (found,) = store.rollout(rollout_id).spans
    assert (found.span_id, found.rollout_id) == (span_id, rollout_id)
    expected = {**vars(span), "span_id": span_id, "rollout_id": rollout_id}
    for name, value in vars(found).items():
        if name != "choices":
            assert value == expected[name], name
    for choice, put in zip(found.choices, span.choices, strict=True):
        assert (choice.index, choice.text, choice.tool_calls, choice.finish_reason) == (
            put.index, put.text, put.tool_calls, put.finish_reason,
        )  # fmt: skip
        assert choice.completion_ids == put.completion_ids
        assert repr(choice.completion_logprobs) == repr(put.completion_logprobs)


def test_spans_are_read_in_the_order_in_which_the_calls_began(store: Store) -> None:
    """Also where they ended, and were appended, in another order; rollouts likewise."""
    ids = [new_rollout_id() for _ in range(3)]
    ids.sort()
    for rollout_id in reversed(ids):
        for started in (3.0, 1.0, 2.0):
            store.append(rollout_id, make_span(started_at=started))
    assert [rollout.rollout_id for rollout in store.rollouts()] == ids
    assert [span.started_at for span in store.rollout(ids[0]).spans] == [1.0, 2.0, 3.0]


def test_a_rollouts_header_keeps_what_later_calls_leave_out(store: Store) -> None:
    """begin twice, a span before any begin, rewards, end: one header with everything that was said."""
    rollout_id = new_rollout_id()
    store.append(rollout_id, make_span(started_at=5.0))
    assert (store.rollout(rollout_id).status, store.rollout(rollout_id).started_at) == ("running", 5.0)
    store.begin_rollout(rollout_id, task_id="t", task={"question": "?"}, command=["python", "a.py"], started_at=4.0)
    store.begin_rollout(rollout_id)
    store.add_reward(rollout_id, 0.5, source="test")
    store.add_reward(rollout_id, 1, source="test")
    store.add_reward(rollout_id, 0.25, name="syntax", source="test")
    store.end_rollout(rollout_id, status="failed", exit_code=7)
    found = store.rollout(rollout_id)
    assert (found.task_id, found.task, found.command) == ("t", {"question": "?"}, ["python", "a.py"])
    assert (found.status, found.exit_code, found.started_at) == ("failed", 7, 4.0)
    assert (found.rewards, found.reward) == ({"reward": 1.0, "syntax": 0.25}, 1.0)
    assert [reward.value for reward in store.rewards(rollout_id)] == [0.5, 1.0, 0.25]
    assert (found.calls, found.prompt_tokens, found.completion_tokens) == (1, 3, 2)


def test_one_score_of_any_name_is_the_reward_and_nan_is_none(store: Store) -> None:
    """Two names and none of them "reward": unscored, as is a score that is no finite number."""
    for rewards, expected in (
        ({}, None),
        ({"a": 1.0}, 1.0),
        ({"a": 1.0, "b": 2.0}, None),
        ({"reward": float("nan")}, None),
    ):
        rollout_id = new_rollout_id()
        store.begin_rollout(rollout_id)
        for name, value in rewards.items():
            store.add_reward(rollout_id, value, name=name)
        assert store.rollout(rollout_id).reward == expected
    with pytest.raises(StoreError, match="'high', which is no number"):
        store.add_reward(new_rollout_id(), "high")  # type: ignore[arg-type]


def test_a_rollout_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    """Unknown and ambiguous beginnings say so."""
    for rollout_id in ("aa" + "0" * 30, "ab" + "0" * 30):
        store.begin_rollout(rollout_id)
    assert store.rollout("ab").rollout_id == "ab" + "0" * 30
    with pytest.raises(UnknownRollout, match="2 rollouts"):
        store.rollout("a")
    for unknown in ("ff", "zz", "", "aa" * 16, "a" * 33):
        with pytest.raises(UnknownRollout):
            store.rollout(unknown)


class Scalar:
    """As numpy's: it looks like a number and msgpack knows nothing of it."""

    def __float__(self) -> float:
        return 1.5

    def __repr__(self) -> str:
        return "Scalar(1.5)"


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    ["\ud800 alone", 2**70, -(2**70), float("nan"), float("inf"), {1, 2}, Scalar(), Hostile(), {1: "a", None: "b"},
     {(1, 2): "tuple"}, {2**70: "key"}, "x" * 2000, b"\xff", nested(150), nested(5000), (1, 2), NotImplemented,
     {"\ud800": "key"}, {Hostile(): 1}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_the_format_cannot_hold_costs_its_field_only(value: object, store: Store) -> None:
    """In a message, a setting, a tool, a task: the span is kept, its neighbours are exact, the store is clean."""
    rollout_id = new_rollout_id()
    message = {"role": "user", "content": value, "beside": "kept"}
    span = make_span(messages=[{"role": "system", "content": "first"}, message])
    span.sampling, span.tools, span.error = {"temperature": 0.5, "odd": value}, [value], "x" * 2000
    span.choices[0].tool_calls = [{"function": value}]  # type: ignore[dict-item]
    store.append(rollout_id, span)
    store.begin_rollout(rollout_id, task={"row": value, "id": 1})
    rollout = store.rollout(rollout_id)
    (found,) = rollout.spans
    assert found.messages[0] == {"role": "system", "content": "first"}
    assert found.messages[1]["beside"] == "kept"
    assert found.sampling["temperature"] == 0.5 and rollout.task is not None and rollout.task["id"] == 1
    assert found.prompt_ids == span.prompt_ids and found.completion_ids == span.completion_ids
    if isinstance(value, (str, bytes)):
        assert found.messages[1]["content"] == value
    assert check(store.path) == []


def test_ids_that_are_no_ids_are_refused(store: Store) -> None:
    """Nothing of such a span is written, and the store goes on."""
    rollout_id = new_rollout_id()
    span = make_span()
    span.choices[0].completion_ids = [-1]  # type: ignore[assignment]
    with pytest.raises((OverflowError, TypeError)):
        store.append(rollout_id, span)
    store.append(rollout_id, make_span())
    assert store.rollout(rollout_id).calls == 1
    assert check(store.path) == []


def test_a_missing_store_is_said(tmp_path: Path) -> None:
    """Without `create`, for a folder that is not there and for one that holds no store; and nothing is made."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(StoreMissing, match=f"no store at {path}"):
            Store.open(path)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_no_store_is_said(tmp_path: Path) -> None:
    """A regular file in its place, a data.mdb of something else, another program's LMDB environment."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreMissing):
        Store.open(tmp_path / "file")
    with pytest.raises(StoreError, match=r"cannot create the store .*file"):
        Store.open(tmp_path / "file", create=True)
    with pytest.raises(StoreError, match=r"cannot create the store .*file/below"):
        Store.open(tmp_path / "file" / "below", create=True)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "data.mdb").write_bytes(b"not LMDB" * 2000)
    for create in (False, True):
        with pytest.raises(StoreError, match="not a readable store"):
            Store.open(tmp_path / "odd", create=create)
    with lmdb.open(str(tmp_path / "other")) as other, other.begin(write=True) as txn:
        txn.put(b"theirs", b"1")
    for create in (False, True):
        with pytest.raises(StoreVersionError, match="no agentlight store"):
            Store.open(tmp_path / "other", create=create)
    with lmdb.open(str(tmp_path / "other")) as other, other.begin() as txn:
        assert [key for key, _ in txn.cursor()] == [b"theirs"]


@pytest.mark.parametrize("create", [False, True])
def test_another_version_is_refused_with_both_numbers(create: bool, tmp_path: Path) -> None:
    """The message says what the store has and what this agentlight reads."""
    path = tmp_path / "store"
    Store.open(path, create=True).close()
    with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
        txn.put(VERSION_KEY, b"999")
    with pytest.raises(StoreVersionError, match="version 999, this agentlight reads version 1"):
        Store.open(path, create=create)


def test_files_are_the_owners_only(tmp_path: Path) -> None:
    """0600 and 0700, whatever the umask; `check` says so when they are not."""
    old = os.umask(0)
    try:
        store = Store.open(tmp_path / "a" / "store", create=True)
    finally:
        os.umask(old)
    store.append(new_rollout_id(), make_span())
    assert stat.S_IMODE(os.stat(store.path).st_mode) == 0o700
    for name in ("data.mdb", "lock.mdb"):
        assert stat.S_IMODE(os.stat(os.path.join(store.path, name)).st_mode) == 0o600
    os.chmod(os.path.join(store.path, "data.mdb"), 0o644)
    (finding,) = check(store.path)
    assert "data.mdb is open to others" in finding
    store.close()


def test_a_second_open_shares_the_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another spelling or a symlink too; closing one leaves the other usable, and closing all really closes."""
    first = Store.open(tmp_path / "store", create=True)
    os.symlink(tmp_path / "store", tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    others = [Store.open("store"), Store.open(tmp_path / "x" / ".." / "store"), Store.open(tmp_path / "link")]
    assert {other.environment for other in others} == {first.environment}
    rollout_id = new_rollout_id()
    for other in others:
        other.append(rollout_id, make_span())
        other.close()
        other.close()
    first.append(rollout_id, make_span())
    assert first.rollout(rollout_id).calls == 4
    first.close()
    with lmdb.open(str(tmp_path / "store")):  # which LMDB refuses while a handle is open
        pass
    with Store.open(tmp_path / "store") as again:
        assert again.rollout(rollout_id).calls == 4


def test_use_after_close_is_an_error_of_ours(tmp_path: Path) -> None:
    """It says that the store was closed, and does not crash the interpreter."""
    store = Store.open(tmp_path / "store", create=True)
    store.close()
    with pytest.raises(StoreError):
        store.append(new_rollout_id(), make_span())


def test_rollout_ids_are_ordered_by_time_and_untouched_by_a_seed() -> None:
    """32 hex digits from the OS: the same seed gives other ids, and drawing one leaves the agent's state alone."""
    import random
    import time

    random.seed(0)
    state = random.getstate()
    first = new_rollout_id()
    time.sleep(0.002)
    random.seed(0)
    second = new_rollout_id()
    assert random.getstate() == state
    assert first < second and len(first) == len(second) == 32
    assert first[12:] != second[12:]
