"""Which call continues which, and the names of what breaks a conversation; token ids stand for words here."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from agentlight_store import Choice, Span, lineage

SYSTEM, QUESTION = {"role": "system", "content": "be brief"}, {"role": "user", "content": "how many?"}


def call(prompt: list[int], completion: list[int], messages: list[Any], text: str = "", tools: Any = None) -> Span:
    choice = Choice(text=text, tool_calls=tools, completion_ids=array("I", completion))
    return Span(prompt_ids=array("I", prompt), choices=[choice], messages=messages)


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | more


def broke(*spans: Span) -> list[str | None]:
    return [node.broke and node.broke.name for node in lineage.nodes(spans)]


def second(prompt: list[int], *messages: Any) -> Span:
    return call(prompt, [99], [SYSTEM, QUESTION, *messages], "done")


FIRST = call([1, 2], [3, 4, 5], [SYSTEM, QUESTION], "three of them")
THOUGHT = call([1, 2], [3, 4, 5], [SYSTEM, QUESTION], "<think>count</think>three")
# Its reasoning went into another field: eight tokens of it, then the reply; the template puts an empty block there.
SILENT = call([1, 2], [10, 11, 12, 13, 14, 15, 16, 17, 18, 19], [SYSTEM, QUESTION], "three")
TOOLS = [{"function": {"name": "count", "arguments": '{"of": "cats", "n": 3}'}}]
RESPACED = [{"function": {"name": "count", "arguments": '{"n":3,"of":"cats"}'}}]
CALLED = call([1, 2], [3, 4, 5], [SYSTEM, QUESTION], "", TOOLS)
MORE = {"role": "user", "content": "sure?"}


@pytest.mark.parametrize(
    ("first", "then", "name"),
    [
        (FIRST, second([1, 2, 3, 4, 5, 6], said("three of them"), MORE), None),
        (FIRST, second([1, 2, 3, 7, 8, 6], said("three of them"), MORE), "re-tokenised"),
        (FIRST, second([1, 2, 8, 5, 6], said("three of them"), MORE), "re-tokenised"),
        (FIRST, second([1, 2, 8, 6], said("four of them"), MORE), "history edited"),
        (SILENT, second([1, 2, 30, 31, 18, 19, 6], said("three"), MORE), "the template dropped reasoning"),
        (THOUGHT, second([1, 2, 5, 6], said("three"), MORE), "the template dropped reasoning"),
        (THOUGHT, second([1, 2, 9, 6], said("<think>count</think>three"), MORE), "the template dropped reasoning"),
        (CALLED, second([1, 2, 3, 8, 6], said("", tool_calls=RESPACED), MORE), "tool JSON re-serialised"),
        (FIRST, call([1, 8, 9], [7], [SYSTEM, {"role": "user", "content": "bye"}]), None),
        (FIRST, call([1, 2], [7], [SYSTEM, QUESTION]), None),
    ],
    ids=[
        "extends",
        "other tokens",
        "one of two",
        "edited reply",
        "dropped behind a parser",
        "dropped",
        "dropped by template",
        "tool",
        "new",
        "asked again",
    ],
)
def test_a_break_has_the_name_of_its_cause(first: Span, then: Span, name: str | None) -> None:
    """Prompt [1, 2], completion [3, 4, 5]; then a prompt that extends it, or does not."""
    assert broke(first, then) == [None, name]


def test_compaction_is_told_from_an_edited_history() -> None:
    """Five messages; then the same beginning with a summary in place of four, and five with another second one."""
    long = call([1, 2, 3, 4, 5], [6], [SYSTEM, QUESTION, said("a"), MORE, said("b")], "c")
    summary = call([1, 2, 7], [8], [SYSTEM, QUESTION, {"role": "user", "content": "so far: ab"}])
    edited = call([1, 2, 9, 4, 5], [8], [SYSTEM, QUESTION, said("x"), MORE, said("b")])
    assert broke(long, summary) == [None, "compaction"]
    assert broke(long, edited) == [None, "history edited"]


def test_a_break_shows_both_texts_and_the_ids_from_where_they_part() -> None:
    _, node = lineage.nodes([FIRST, second([1, 2, 3, 7, 8, 6], said("three of them"), MORE)])
    assert node.broke is not None
    assert (node.broke.sampled, node.broke.sent) == ("three of them", "three of them")
    assert (node.broke.sampled_ids, node.broke.sent_ids) == ([4, 5], [7, 8, 6])


def test_interleaved_and_parallel_calls_keep_their_own_parents() -> None:
    """A1 B1 A2 B2 A3: each continues its own; two calls from A3 are a fork, which is named."""
    a1, b1 = call([1], [2], []), call([9], [8], [])
    a2, b2 = call([1, 2, 3], [4], []), call([9, 8, 7], [6], [])
    a3, a4 = call([1, 2, 3, 4, 5], [6], []), call([1, 2, 3, 4, 7], [6], [])
    made = lineage.nodes([a1, b1, a2, b2, a3, a4])
    parents = [None if node.parent is None else made.index(node.parent) for node in made]
    assert parents == [None, None, 0, 1, 2, 2]
    assert [node.broke and node.broke.name for node in made[:5]] == [None] * 5
    assert made[5].broke is not None and made[5].broke.name == lineage.FORK


def test_a_later_turn_that_is_re_tokenised_is_no_mere_fork() -> None:
    """Turn 3 extends turn 1 exactly, and not turn 2, whose completion comes back as other tokens."""
    turn_1 = call([1], [2], [QUESTION], "a")
    turn_2 = call([1, 2, 3], [4, 5], [QUESTION, said("a"), MORE], "bc")
    turn_3 = call([1, 2, 3, 6, 7], [8], [QUESTION, said("a"), MORE, said("bc"), MORE], "d")
    assert broke(turn_1, turn_2, turn_3) == [None, None, "re-tokenised"]
