"""Rows of a JSONL file -> tasks -> command lines; starts nothing, so that a mistake is found before anything runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlight_store.errors import AgentlightError

# `{field}` in the command; `${HOME}` is the shell's, and JSON such as {"a": 1} has no name right after its brace.
PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
LONGEST = 128 * 1024 - 64  # bytes: what Linux allows for one argument, and for one environment variable with its name


class TaskError(AgentlightError):
    """A row cannot be a task; the message names the file and the line."""


@dataclass(frozen=True)
class Task:
    task_id: str
    row: dict[str, Any]
    text: str  # the row as JSON, for the agent's environment
    command: list[str]
    lines: list[int]  # where the row stands; equal rows are one task


def read_tasks(path: Path, command: list[str]) -> list[Task]:
    """Raises TaskError for the first line that is not a JSON object, lacks a field, or has another row's id."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 ({error.reason} at byte {error.start})") from None
    tasks: dict[str, Task] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        task = _task(line, command, f"{path} line {number}")
        known = tasks.setdefault(task.task_id, task)
        if known.row != task.row:
            raise TaskError(
                f"{path} line {number}: the id {task.task_id!r} is taken by line {known.lines[0]}, whose row differs"
            )
        known.lines.append(number)
    if not tasks:
        raise TaskError(f"{path} has no rows")
    return list(tasks.values())


def missing(tasks: list[Task], samples: int, done: Counter[str]) -> list[Task]:
    """A task for each rollout still to run: every task once, then again, so that a part of them is balanced."""
    return [task for sample in range(samples) for task in tasks if done[task.task_id] <= sample]


def fill(argument: str, row: dict[str, Any], where: str) -> str:
    """The argument with each `{field}` replaced: text as it is, everything else as JSON."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in row:
            has = ", ".join(map(str, row)) or "none"
            raise TaskError(f"{where} has no field {match[1]!r}, which the command asks for (its fields: {has})")
        field = row[match[1]]
        return field if isinstance(field, str) else json.dumps(field, ensure_ascii=False)

    return PLACEHOLDER.sub(value, argument)


def _task(line: str, command: list[str], where: str) -> Task:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{where} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise TaskError(f"{where} is JSON, but not an object")
    text = json.dumps(row)
    filled = [fill(argument, row, where) for argument in command]
    task = Task(_task_id(row), row, text, filled, [])
    _check_passable([*filled, text, task.task_id], where)
    return task


def _task_id(row: dict[str, Any]) -> str:
    for name in ("id", "task_id"):
        if row.get(name) is not None:
            return row[name] if isinstance(row[name], str) else json.dumps(row[name])
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]


def _check_passable(texts: Iterable[str], where: str) -> None:
    for text in texts:
        try:
            size = len(os.fsencode(text))
        except UnicodeEncodeError:
            raise TaskError(f"{where} holds a character that no argument of a program can hold") from None
        if "\0" in text:
            raise TaskError(f"{where} holds a NUL character, which no argument of a program can hold")
        if size > LONGEST:
            raise TaskError(f"{where}: {size:,} bytes are more than an argument can have ({LONGEST:,})")
