"""Token ids and messages are stored once: what each further call costs, and what `check` finds when a part is gone."""

from __future__ import annotations

import json
import os
import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from spans import make_span

from agentlight_store import Choice, Store, new_rollout_id
from agentlight_store.chains import common_prefix
from agentlight_store.check import check
from agentlight_store.environment import HEADERS, LISTS, REWARDS, SPANS, TOKENS
from agentlight_store.store import scan


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store", create=True) as store:
        yield store


def token_bytes(store: Store) -> int:
    """The bytes of ids that the store holds, node headers left out."""
    return store.environment.read(lambda txn: sum(len(node) - 20 for _, node in scan(txn, TOKENS)))


def count(store: Store, kind: bytes) -> int:
    return store.environment.read(lambda txn: len(list(scan(txn, kind))))


def test_the_same_prompt_is_stored_once(store: Store) -> None:
    """16 samples of one prompt, in as many rollouts and processes' tips: the prompt's ids are there once."""
    prompt = list(range(1000))
    for number in range(16):
        with_own_tips = Store.open(store.path)
        with_own_tips.append(new_rollout_id(), make_span(prompt, [number] * 10))
        with_own_tips.close()
    assert token_bytes(store) == 4 * (1000 + 16 * 10)
    assert count(store, LISTS) == 2  # the message, and the settings that all the calls have


def test_a_retry_and_a_second_choice_cost_their_completions(store: Store) -> None:
    """The same prompt again in a rollout, and n = 3, add completions only; equal completions add nothing."""
    rollout_id, prompt = new_rollout_id(), list(range(1000))
    store.append(rollout_id, make_span(prompt, [1] * 10))
    store.append(rollout_id, make_span(prompt, [2] * 10))
    assert token_bytes(store) == 4 * 1020
    store.append(rollout_id, make_span(prompt, [2] * 10))
    assert token_bytes(store) == 4 * 1020
    span = make_span(prompt, [3] * 10)
    span.choices += [
        Choice(index, "", None, "stop", array("I", [index] * 10), array("f", [0.0] * 10)) for index in (4, 5)
    ]
    span.started_at = 2.0
    store.append(rollout_id, span)
    assert token_bytes(store) == 4 * 1050
    (*_, found) = store.rollout(rollout_id).spans
    assert [list(choice.completion_ids or ()) for choice in found.choices] == [[number] * 10 for number in (3, 4, 5)]


def test_a_prompt_that_goes_on_shares_its_longest_known_beginning(store: Store) -> None:
    """The next turn, an edited turn, a sub-agent in between: what is new is what is stored, and all reads back."""
    rollout_id, draw = new_rollout_id(), random.Random(0)
    known: list[tuple[list[int], list[int]]] = []

    def call(prompt: list[int], new: int) -> None:
        before, completion = token_bytes(store), [draw.randrange(50_000) for _ in range(20)]
        store.append(rollout_id, make_span(prompt, completion, started_at=float(len(known))))
        assert token_bytes(store) - before == 4 * (new + 20)
        known.append((prompt, completion))

    first = [draw.randrange(50_000) for _ in range(500)]
    call(first, new=500)
    second = first + known[0][1] + [1] * 30
    call(second, new=30)
    other = [draw.randrange(50_000) for _ in range(300)]
    call(other, new=300)  # a sub-agent with a prompt of its own
    call(second + known[1][1] + [2] * 30, new=30)
    call(first + [3] * 50, new=50)  # the history without the reply
    call(other + known[2][1] + [4], new=1)
    call(second[:520] + [5] * 10, new=10)  # an edited last message
    call(first[:100], new=0)  # no more than the beginning of what is there
    call([9] * 10, new=10)
    for span, (prompt, completion) in zip(store.rollout(rollout_id).spans, known, strict=True):
        assert (list(span.prompt_ids or ()), list(span.completion_ids or ())) == (prompt, completion)
    assert check(store.path) == []


def test_the_longest_common_prefix_is_in_whole_tokens() -> None:
    """Tokens that share some of their bytes do not count; random pairs against the plain loop."""
    draw = random.Random(0)
    for _ in range(300):
        a = [draw.choice([1, 257]) for _ in range(draw.randrange(20))]
        b = a[: draw.randrange(len(a) + 1)] + [draw.choice([1, 257]) for _ in range(draw.randrange(20))]
        same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        assert common_prefix(array("I", a).tobytes(), array("I", b).tobytes()) == 4 * same


def converse(store: Store, draw: random.Random) -> Iterator[int]:
    """A conversation of 50 turns, about 130 new tokens each; yields the bytes of what its transcript holds."""
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randrange(2, 9))) for _ in range(3000)]

    def say(role: str, tokens: int) -> dict[str, Any]:
        return {"role": role, "content": " ".join(draw.choices(words, k=tokens))[: 4 * tokens]}

    messages, ids, rollout_id = [say("system", 400)], [draw.randrange(50_000) for _ in range(400)], new_rollout_id()
    logprob_bytes = 0
    for turn in range(50):
        new, sampled = draw.randrange(40, 61), draw.randrange(60, 101)
        messages.append(say("user", new))
        ids += [draw.randrange(50_000) for _ in range(new)]
        reply, completion = say("assistant", sampled), [draw.randrange(50_000) for _ in range(sampled)]
        span = make_span(ids, completion, started_at=1.7e9 + turn, messages=list(messages))
        span.choices[0].text = reply["content"]
        span.choices[0].completion_logprobs = array("f", [-draw.random() for _ in completion])
        span.sampling |= {"top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0, "max_tokens": 256}
        span.usage = {"input_tokens": len(ids), "output_tokens": len(completion)}
        store.append(rollout_id, span)
        ids += completion
        messages.append(reply)
        logprob_bytes += 4 * len(completion)
        yield 4 * len(ids) + logprob_bytes + len(json.dumps(messages))
    (*_, last) = store.rollout(rollout_id).spans
    assert [*last.messages, messages[-1]] == messages
    assert [*(last.prompt_ids or ()), *(last.completion_ids or ())] == ids


@pytest.mark.parametrize("seed", range(3))
def test_fifty_turns_cost_less_than_three_times_their_last_transcript(seed: int, store: Store) -> None:
    """The file of a fresh store with that one conversation, against the last call's ids, log-probs and messages.

    The file has more pages than are in use: LMDB copies each page that it changes, and the copies of the last
    two transactions, some 11 pages, wait for reuse.
    """
    *_, transcript = converse(store, random.Random(seed))
    store.close()
    file = os.stat(os.path.join(store.path, "data.mdb"))
    assert file.st_size < 3 * transcript
    assert file.st_blocks * 512 < 3 * transcript
    with lmdb.open(store.path) as env:
        stats = env.stat()
    pages = stats["branch_pages"] + stats["leaf_pages"] + stats["overflow_pages"]
    assert stats["psize"] * pages < 2 * transcript
    assert check(store.path) == []


def test_many_conversations_fill_their_pages_too(store: Store) -> None:
    """Eight at once, a call of each in turn, as parallel rollouts write them."""
    conversations = [converse(store, random.Random(seed)) for seed in range(8)]
    *_, transcripts = (sum(turn) for turn in zip(*conversations, strict=True))
    assert os.stat(os.path.join(store.path, "data.mdb")).st_size < 3 * transcripts
    assert check(store.path) == []


def damage(store: Store, kind: bytes, change) -> None:
    """Put `change(node)` in the place of the largest node, None removes it."""

    def write(txn) -> None:
        key, node = max(scan(txn, kind), key=lambda entry: len(entry[1]))
        changed = change(node)
        txn.delete(key) if changed is None else txn.put(key, changed)

    store.environment.write(write)


@pytest.mark.parametrize(
    ("kind", "change", "text"),
    [
        (TOKENS, lambda node: node[:-1] + b"\xff", "token segment .*: the content does not match its key"),
        (TOKENS, lambda node: node[:16] + b"\xff\xff\x00\x00" + node[20:], "keeps 65535 tokens of a parent with"),
        (TOKENS, lambda node: None, "token segment .* is missing"),
        (LISTS, lambda node: node[:-1], "message .*: the content does not match its key"),
        (LISTS, lambda node: None, "message .* is missing"),
        (SPANS, lambda node: node[:20], "unreadable"),
        (SPANS, lambda node: b"", "unreadable"),
        (HEADERS, lambda node: None, "its rollout has no header"),
    ],
)
def test_check_finds_damage(kind: bytes, change, text: str, store: Store) -> None:
    """A changed or missing segment, message, span or header is a finding that names it, never a traceback."""
    rollout_id = new_rollout_id()
    store.append(rollout_id, make_span(list(range(100)), list(range(100, 150))))
    store.append(rollout_id, make_span(list(range(150)), [7] * 5, messages=[{"content": "long " * 50}]))
    assert check(store.path) == []
    damage(store, kind, change)
    findings = check(store.path)
    import re

    assert any(re.search(text, finding) for finding in findings), findings


def test_check_finds_calls_marked_trainable_that_cannot_be(store: Store) -> None:
    """Ids without log-probs, fewer log-probs than ids: both numbers are said. A NaN reward and an orphan too."""
    rollout_id = new_rollout_id()
    span = make_span([1], [2, 3])
    span.choices[0].completion_logprobs = array("f", [0.0])
    store.append(rollout_id, span)
    span.choices[0].completion_logprobs = None
    store.append(rollout_id, span)
    store.add_reward(rollout_id, float("nan"))
    findings = check(store.path)
    assert len(findings) == 3
    assert any("2 completion ids and 1 log-probs" in finding for finding in findings)
    assert any("2 completion ids and None log-probs" in finding for finding in findings)
    assert any("'reward'" in finding and "nan" in finding for finding in findings)
    store.environment.write(lambda txn: txn.put(REWARDS + b"x" * 28, b"\x80"))
    assert any("no such rollout" in finding for finding in check(store.path))
