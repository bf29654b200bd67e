"""Which call continues which, by token ids alone; and where a conversation stops to extend itself, what broke it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentlight_store.span import Choice, Span

TOKEN = 4  # bytes
SHOWN = 12  # token ids on each side of a break

DROPPED = "the template dropped reasoning"
RETOKENISED = "re-tokenised"
TOOL_JSON = "tool JSON re-serialised"
EDITED = "history edited"
COMPACTED = "compaction"
UNKNOWN = "unknown"
FORK = "a second call continues the same turn (fork)"


@dataclass(frozen=True)
class Break:
    """Where a prompt stops to agree with the call that it continues by its messages."""

    name: str
    before: Span
    after: Span
    sampled: str  # what the policy wrote
    sent: str  # what the agent sent back in its place
    sampled_ids: list[int]  # from the first token that differs
    sent_ids: list[int]


@dataclass(eq=False)
class Node:
    """One choice of a call, as a place where a later prompt may continue."""

    span: Span
    choice: Choice
    tokens: bytes  # prompt and completion, four bytes a token
    parent: Node | None
    broke: Break | None
    opened: bool  # False for one of n > 1 until a later prompt shows that the program used it
    is_continued: bool = False

    @property
    def prompt_bytes(self) -> int:
        return TOKEN * len(self.span.prompt_ids or ())


def nodes(spans: Iterable[Span]) -> list[Node]:
    """The choices of all calls that have ids, each with the earlier one whose tokens its prompt extends.

    Only calls of one role continue one another. Several conversations stay open side by side: of all earlier
    choices the longest that is a prefix counts, so sub-agents and parallel calls do not disturb each other.
    """
    made: list[Node] = []
    for span in spans:
        if span.prompt_ids is None:
            continue
        prompt = _bytes(span.prompt_ids)
        earlier = [node for node in made if node.span.role == span.role]
        parent = max(
            (node for node in earlier if prompt.startswith(node.tokens)),
            key=lambda node: len(node.tokens),
            default=None,
        )
        broke = None
        if parent is None or parent.is_continued:
            broke = _break(span, prompt, earlier, parent)
        if parent is not None:
            parent.opened = parent.is_continued = True
        choices = [choice for choice in span.choices if choice.completion_ids]
        made += [
            Node(span, choice, prompt + _bytes(choice.completion_ids), parent, broke, opened=len(span.choices) == 1)
            for choice in choices
        ]
    return made


def _bytes(ids: Any) -> bytes:
    return array("I", ids).tobytes()


def _break(span: Span, prompt: bytes, earlier: list[Node], parent: Node | None) -> Break | None:
    """None for a call that opens a conversation of its own, or samples once more from a prompt of before."""

    def likeness(node: Node) -> tuple[bool, int, int]:
        common = _continues(span, node)
        return common == len(node.span.messages) < len(span.messages), common, _agreed(prompt, node.tokens)

    last = max(earlier, key=likeness, default=None)
    if last is None or last.tokens[: last.prompt_bytes] == prompt:
        return None
    agreed = _agreed(prompt, last.tokens)
    if not agreed:
        return None
    if parent is not None and agreed <= len(parent.tokens):
        return _described(FORK, span, parent, len(parent.tokens), prompt)
    name = _after_sampled(span, prompt, last, agreed) if agreed >= last.prompt_bytes else _before_sampled(span, last)
    return None if name is None else _described(name, span, last, agreed, prompt)


def _continues(span: Span, node: Node) -> int:
    """How many messages of the earlier call this one repeats from the start."""
    number = 0
    for mine, theirs in zip(span.messages, node.span.messages, strict=False):
        if _canonical(mine) != _canonical(theirs):
            break
        number += 1
    return number


def _after_sampled(span: Span, prompt: bytes, last: Node, agreed: int) -> str:
    """The prompt agrees up to somewhere in the completion: what was sampled was rendered with other tokens."""
    reply = _reply_in(span, last)
    text = last.choice.text or ""
    if last.choice.tool_calls and reply is not None and _same_calls(last.choice.tool_calls, reply.get("tool_calls")):
        return TOOL_JSON
    if reply is not None and not _same_text(text, reply.get("content")):
        return (
            DROPPED
            if "</think>" in text and _same_text(text.rpartition("</think>")[2], reply.get("content"))
            else EDITED
        )
    if "</think>" in text or _lacks_the_beginning(prompt, last, agreed):
        return DROPPED
    return RETOKENISED if span.messages or agreed > last.prompt_bytes else UNKNOWN


def _before_sampled(span: Span, last: Node) -> str | None:
    """The prompt leaves the earlier one before its end."""
    old, new, common = last.span.messages, span.messages, _continues(span, last)
    if not old or not new:
        return UNKNOWN
    if common == len(old):
        return DROPPED if any("</think>" in str(_content(message)) for message in old) else UNKNOWN
    told = [message for message in old[:common] if _role(message) != "system"]
    if len(new) < len(old) and (told or (common and len(old) - len(new) > 1)):
        return COMPACTED
    return EDITED if told else None


def _lacks_the_beginning(prompt: bytes, last: Node, agreed: int) -> bool:
    """True when the prompt goes on with a later part of the completion, perhaps after an empty thinking block.

    What is put in its place is much shorter than what is gone; other tokens for the same text are about as many.
    """
    rest, sent = last.tokens[agreed:], prompt[agreed : agreed + 64 * TOKEN]
    for gone in range(1, len(rest) // TOKEN):
        tail = rest[gone * TOKEN : (gone + 8) * TOKEN]
        if any(sent[put * TOKEN :].startswith(tail) for put in range(min(8, len(sent) // TOKEN)) if gone > 2 * put):
            return True
    return False


def _reply_in(span: Span, last: Node) -> dict[str, Any] | None:
    """The assistant message in which the agent sent the completion back."""
    after = span.messages[len(last.span.messages) :]
    return after[0] if after and isinstance(after[0], dict) and after[0].get("role") == "assistant" else None


def _same_calls(sampled: list[dict[str, Any]], sent: Any) -> bool:
    return isinstance(sent, list) and [_called(call) for call in sampled] == [_called(call) for call in sent]


def _called(call: Any) -> tuple[Any, Any]:
    function = call.get("function", call) if isinstance(call, dict) else {}
    arguments = function.get("arguments")
    with suppress(TypeError, ValueError):
        arguments = json.loads(arguments or "")
    return function.get("name"), arguments


def _same_text(sampled: str, sent: Any) -> bool:
    if isinstance(sent, list):
        sent = "".join(str(part.get("text", "")) for part in sent if isinstance(part, dict))
    return sampled.strip() == str(sent or "").strip()


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else message


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _described(name: str, span: Span, last: Node, agreed: int, prompt: bytes) -> Break:
    number = len(last.span.messages)
    sent = span.messages[number:] or span.messages[-1:]
    return Break(
        name, last.span, span,
        sampled=last.choice.text or json.dumps(last.choice.tool_calls, ensure_ascii=False, default=str),
        sent="" if not sent else _text_of(sent[0]),
        sampled_ids=_ids(last.tokens, agreed), sent_ids=_ids(prompt, agreed),
    )  # fmt: skip


def _text_of(message: Any) -> str:
    content = _content(message)
    return content if isinstance(content, str) and content else _canonical(message)


def _ids(tokens: bytes, start: int) -> list[int]:
    return list(array("I", tokens[start : start + SHOWN * TOKEN]))


def _agreed(one: bytes, other: bytes) -> int:
    """How many bytes of whole tokens both begin with."""
    low, high = 0, min(len(one), len(other)) // TOKEN
    while low < high:
        middle = (low + high + 1) // 2
        if one[: middle * TOKEN] == other[: middle * TOKEN]:
            low = middle
        else:
            high = middle - 1
    return low * TOKEN


def _canonical(message: Any) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False, default=str)
