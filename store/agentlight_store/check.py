"""Find what is wrong with a store: every reference, hash and count is followed; prints nothing."""

from __future__ import annotations

import math
import os
from typing import Any

from agentlight_store.chains import digest
from agentlight_store.errors import StoreError
from agentlight_store.packing import unpack
from agentlight_store.records import SpanReader
from agentlight_store.store import Store


def check(path: str | os.PathLike[str]) -> list[str]:
    """The findings, one sentence each; an empty list is a sound store. Raises StoreError if it cannot be opened."""
    store = Store.open(path)
    return (
        store.environment.read(_nodes)
        + store.environment.read(_spans)
        + store.environment.read(_rewards)
        + _modes(store.path)
    )


def _nodes(txn: Any, dbs: dict[str, Any]) -> list[str]:
    findings = []
    for name in ("tokens", "blobs"):
        for key, node in txn.cursor(dbs[name]):
            if digest(bytes(node)) != bytes(key):
                findings.append(f"{name} {bytes(key).hex()}: the content does not match its key")
    return findings


def _spans(txn: Any, dbs: dict[str, Any]) -> list[str]:
    findings: list[str] = []
    rollout, reader = b"", SpanReader(txn, dbs)
    for key, data in txn.cursor(dbs["spans"]):
        key = bytes(key)
        where = f"rollout {key[:16].hex()}, span {key[24:].hex()}"
        if len(key) != 32:
            findings.append(f"span key {key.hex()} has {len(key)} bytes instead of 32")
            continue
        if key[:16] != rollout:
            rollout, reader = key[:16], SpanReader(txn, dbs)
            if txn.get(rollout, db=dbs["rollouts"]) is None:
                findings.append(f"{where}: its rollout has no header")
        try:
            span = reader.read(rollout.hex(), key[24:].hex(), bytes(data))
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


def _rewards(txn: Any, dbs: dict[str, Any]) -> list[str]:
    findings = []
    for key, value in txn.cursor(dbs["rewards"]):
        rollout = bytes(key)[:16]
        if txn.get(rollout, db=dbs["rollouts"]) is None:
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


def _modes(path: str) -> list[str]:
    findings = []
    for name in ("data.mdb", "lock.mdb"):
        file = os.path.join(path, name)
        if os.path.exists(file) and (mode := os.stat(file).st_mode & 0o077):
            findings.append(f"{name} is open to others (mode {mode:03o} beyond the owner); chmod 600 {file}")
    return findings
