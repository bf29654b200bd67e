"""A rollout's header, scores and events: what is written around its calls; light, for the launcher's sake."""

from __future__ import annotations

import os
import time

from agentlight_store.environment import EVENTS, HEADERS, REWARDS, SPANS
from agentlight_store.errors import StoreError, UnknownRollout
from agentlight_store.packing import pack, unpack

TYPE_CHECKING = False  # the launcher comes here while the agent starts
if TYPE_CHECKING:
    from typing import Any

    from agentlight_store.environment import Environment

HEADER = ("task_id", "task", "status", "exit_code", "started_at", "ended_at", "command")
# Only in the headers that need them: which server answered ("policy" or "own"), why all else was removed.
ARM, DROPPED = "arm", "dropped"
FINAL = "reward"  # the score that is trained on, unless another is named


def begin(
    environment: Environment,
    rollout_id: str,
    *,
    task_id: str | None = None,
    task: dict[str, Any] | None = None,
    started_at: float | None = None,
    command: list[str] | None = None,
    arm: str | None = None,
) -> None:
    """Write the rollout's header; a header that is already there keeps what this call leaves out.

    Keys that stand in `command` are not written.
    """
    if command is not None:
        from agentlight_store.redaction import redacted_command  # the launcher has started the agent by now

        command = redacted_command(command, os.environ)
    given = {"task_id": task_id, "task": task, "started_at": started_at, "command": command, ARM: arm}
    _update(environment, rollout_id, {name: value for name, value in given.items() if value is not None})


def end(
    environment: Environment, rollout_id: str, *, status: str, exit_code: int | None = None,
    ended_at: float | None = None,
) -> None:  # fmt: skip
    """`status` is one of "ok", "failed", "timeout", "interrupted"."""
    ended = time.time() if ended_at is None else ended_at
    _update(environment, rollout_id, {"status": status, "exit_code": exit_code, "ended_at": ended})


def _update(environment: Environment, rollout_id: str, changes: dict[str, Any]) -> None:
    key = HEADERS + key_of(rollout_id)

    def write(txn: Any) -> None:
        found = txn.get(key)
        txn.put(key, pack(unpack(found or new_header(time.time())) | changes))

    environment.write(write)


def new_header(started_at: float) -> bytes:
    """Of a rollout of which nothing else is known yet."""
    return pack(dict.fromkeys(HEADER) | {"status": "running", "started_at": started_at})


def add_reward(environment: Environment, rollout_id: str, value: float, name: str = FINAL, source: str = "") -> None:
    """Record a score; the last one of a name counts. Raises StoreError when `value` is no number."""
    if not isinstance(value, (int, float)):
        raise StoreError(f"reward {name!r} of rollout {rollout_id} is {value!r}, which is no number")
    rollout = key_of(rollout_id)
    key = REWARDS + rollout + time.time_ns().to_bytes(8, "big") + os.urandom(4)
    record = pack({"name": name, "value": float(value), "source": source})

    def write(txn: Any) -> None:
        txn.put(HEADERS + rollout, new_header(time.time()), overwrite=False)
        txn.put(key, record)

    environment.write(write)


def add_event(
    environment: Environment, rollout_id: str, *, kind: str, name: str, role: str, content: Any,
    started_at: float | None = None, ended_at: float | None = None,
) -> None:  # fmt: skip
    """Record what happened between the calls: `kind` is "tool", "observation" or "span", `content` any value."""
    now = time.time()
    started_at = now if started_at is None else started_at
    rollout = key_of(rollout_id)
    key = EVENTS + rollout + int(started_at * 1e9).to_bytes(8, "big") + os.urandom(4)
    event = {"kind": kind, "name": name, "role": role, "content": content, "pid": os.getpid()}
    record = pack(event | {"started_at": started_at, "ended_at": ended_at or now})

    def write(txn: Any) -> None:
        txn.put(HEADERS + rollout, new_header(started_at), overwrite=False)
        txn.put(key, record)

    environment.write(write)


def is_empty(environment: Environment, rollout_id: str) -> bool:
    """True for a rollout with a header and nothing else."""
    rollout = key_of(rollout_id)

    def look(txn: Any) -> bool:
        cursor = txn.cursor()
        return not any(
            cursor.set_range(kind + rollout) and cursor.key().startswith(kind + rollout)
            for kind in (SPANS, REWARDS, EVENTS)
        )

    return environment.read(look)


def drop(environment: Environment, rollout_id: str, why: str) -> None:
    """Remove all of a rollout but its header, which says why; it is counted, and read no more."""
    rollout = key_of(rollout_id)

    def write(txn: Any) -> None:
        cursor = txn.cursor()
        for kind in (SPANS, REWARDS, EVENTS):
            while cursor.set_range(kind + rollout) and cursor.key().startswith(kind + rollout):
                cursor.delete()
        key = HEADERS + rollout
        txn.put(key, pack(unpack(txn.get(key) or new_header(time.time())) | {DROPPED: why}))

    environment.write(write)


def forget(environment: Environment, rollout_id: str) -> None:
    """Remove the header of an empty rollout."""
    key = HEADERS + key_of(rollout_id)
    environment.write(lambda txn: txn.delete(key))


def key_of(rollout_id: str) -> bytes:
    """Raises UnknownRollout for what is no id."""
    try:
        key = bytes.fromhex(rollout_id)
    except ValueError:
        key = b""
    if len(key) != 16:
        raise UnknownRollout(f"{rollout_id!r} is no rollout id (32 hex digits)")
    return key
