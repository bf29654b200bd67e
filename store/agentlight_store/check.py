"""Find what is wrong with a store: every reference, hash and count is followed; prints nothing."""

from __future__ import annotations

import math
import os
from typing import Any

from agentlight_store.chains import name_of
from agentlight_store.environment import EVENTS, HEADERS, LISTS, REWARDS, SPANS, TOKENS
from agentlight_store.errors import StoreError
from agentlight_store.packing import unpack
from agentlight_store.records import SpanReader
from agentlight_store.rollout import Event
from agentlight_store.store import Store, scan


def check(path: str | os.PathLike[str]) -> list[str]:
    """The findings, one sentence each; an empty list is a sound store. Raises StoreError if it cannot be opened."""
    store = Store.open(path)
    return (
        store.environment.read(_nodes)
        + store.environment.read(_spans)
        + store.environment.read(_rewards)
        + store.environment.read(_events)
        + _modes(store.path)
    )


def _nodes(txn: Any) -> list[str]:
    findings = []
    for kind, what in ((TOKENS, "token segment"), (LISTS, "message")):
        for key, node in scan(txn, kind):
            if kind + name_of(node) != key:
                findings.append(f"{what} {key[1:].hex()}: the content does not match its key")
    return findings


def _spans(txn: Any) -> list[str]:
    findings: list[str] = []
    rollout, reader = b"", SpanReader(txn)
    for key, data in scan(txn, SPANS):
        key = key[1:]
        where = f"rollout {key[:16].hex()}, span {key[24:].hex()}"
        if len(key) != 32:
            findings.append(f"span key {key.hex()} has {len(key)} bytes instead of 32")
            continue
        if key[:16] != rollout:
            rollout, reader = key[:16], SpanReader(txn)
            if txn.get(HEADERS + rollout) is None:
                findings.append(f"{where}: its rollout has no header")
        try:
            span = reader.read(rollout.hex(), key[24:].hex(), data)
        except StoreError as error:
            findings.append(f"{where}: {error}")
            continue
        except Exception as error:  # bytes on a disk can be anything
            findings.append(f"{where}: unreadable ({type(error).__name__}: {error})")
            continue
        for choice in span.choices:
            ids, logprobs = choice.completion_ids, choice.completion_logprobs
            if span.trainable and (ids is None or logprobs is None or len(ids) != len(logprobs)):
                counts = [None if values is None else len(values) for values in (ids, logprobs)]
                findings.append(f"{where}: marked trainable with {counts[0]} completion ids and {counts[1]} log-probs")
    return findings


def _rewards(txn: Any) -> list[str]:
    findings = []
    for key, value in scan(txn, REWARDS):
        rollout = key[1:17]
        if txn.get(HEADERS + rollout) is None:
            findings.append(f"reward of rollout {rollout.hex()}: no such rollout")
        try:
            reward = unpack(value)
            finite = math.isfinite(reward["value"])
        except Exception as error:  # bytes on a disk can be anything
            findings.append(f"reward of rollout {rollout.hex()}: unreadable ({type(error).__name__}: {error})")
            continue
        if not finite:
            findings.append(
                f"reward {reward['name']!r} of rollout {rollout.hex()} is {reward['value']}: counted as unscored"
            )
    return findings


def _events(txn: Any) -> list[str]:
    findings = []
    for key, value in scan(txn, EVENTS):
        rollout = key[1:17]
        if txn.get(HEADERS + rollout) is None:
            findings.append(f"event of rollout {rollout.hex()}: no such rollout")
        try:
            Event(**unpack(value))
        except Exception as error:  # bytes on a disk can be anything
            findings.append(f"event of rollout {rollout.hex()}: unreadable ({type(error).__name__}: {error})")
    return findings


def _modes(path: str) -> list[str]:
    findings = []
    for name in ("data.mdb", "lock.mdb"):
        file = os.path.join(path, name)
        if os.path.exists(file) and (mode := os.stat(file).st_mode & 0o077):
            findings.append(f"{name} is open to others (mode {mode:03o} beyond the owner); chmod 600 {file}")
    return findings
