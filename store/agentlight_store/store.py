"""Append spans and rewards, read them back by rollout; the meaning of the store's keys, and nothing of LMDB's care.

Keys, binary and fixed-size a kind, so that one rollout is one range scan; all in one database, because each commit
copies the pages from the root of every database that it touches:
    "e", "h", "i", "m", "r", "s"                                          -> nothing: where a kind begins
    "agentlight-store"                                                    -> the format's version, in digits
    "e" | rollout_id (16) | started_at ns (8, big-endian) | random (4)    -> msgpack of rollout.Event
    "h" | rollout_id (16)                                                 -> msgpack header
    "i" and "m" | name (16)                                               -> ids, messages and the like: chains.py
    "r" | rollout_id (16) | recorded at ns (8, big-endian) | random (4)   -> msgpack {name, value, source}
    "s" | rollout_id (16) | started_at ns (8, big-endian) | span_id (8)   -> records.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from agentlight_store import headers
from agentlight_store.chains import TokenTips
from agentlight_store.environment import EVENTS, HEADERS, REWARDS, SPANS, Environment
from agentlight_store.errors import UnknownRollout
from agentlight_store.headers import DROPPED, FINAL, key_of, new_header
from agentlight_store.packing import unpack
from agentlight_store.records import SpanReader, write_span
from agentlight_store.rollout import Event, Reward, Rollout
from agentlight_store.span import Span

KEYS_REMEMBERED = 4096  # the messages of open conversations and the settings, mostly; some 100 bytes each


class _Written:
    """What this process has written: entries that need not be written again, and sequences to build on."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.tips = TokenTips()
        self._keys: set[bytes] = set()

    def batch(self) -> _Batch:
        if len(self._keys) > KEYS_REMEMBERED:
            self._keys.clear()
        return _Batch(self._keys)


class _Batch:
    """The entries of one call, as far as they are new; in place of a transaction for those who `put` them."""

    __slots__ = ("_known", "entries")

    def __init__(self, known: set[bytes]) -> None:
        self._known = known
        self.entries: list[tuple[bytes, bytes]] = []

    def has(self, key: bytes) -> bool:
        return key in self._known

    def put(self, key: bytes, value: bytes, *, overwrite: bool) -> None:
        """Nothing is overwritten: what has a name made of its bytes is always the same."""
        if key not in self._known:
            self._known.add(key)
            self.entries.append((key, value))


class Store:
    """A store of rollouts. `Store.open(path)` reads and writes an existing one, `create=True` makes it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._written = _Written()
        self._closed = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], create: bool = False) -> Store:
        """Raises StoreMissing, StoreVersionError or StoreError, each naming the path and what to do."""
        return cls(Environment.at(path, create=create))

    @property
    def path(self) -> str:
        return self._environment.path

    @property
    def environment(self) -> Environment:
        return self._environment

    def close(self) -> None:
        """Other stores of this process on the same path stay open."""
        if not self._closed:
            self._closed = True
            self._environment.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing -------------------------------------------------------------------------------------------

    def append(self, rollout_id: str, span: Span) -> str:
        """Commit one span, and its rollout's header if it is the first; returns the span's id.

        When this returns, the span survives the death of the process.
        """
        rollout = key_of(rollout_id)
        span_key = os.urandom(8)
        key = SPANS + rollout + int(span.started_at * 1e9).to_bytes(8, "big") + span_key

        def prepare() -> Callable[[Any], None]:
            if self._written.pid != os.getpid():  # what the parent remembers to have written may not be committed
                self._forget()
            new = self._written.batch()
            if not new.has(HEADERS + rollout):
                new.put(HEADERS + rollout, new_header(span.started_at), overwrite=False)
            record = write_span(new, self._written.tips, rollout, span)

            def write(txn: Any) -> None:
                cursor = txn.cursor()
                cursor.putmulti(new.entries, overwrite=False)
                last = cursor.last() and cursor.key() < key
                cursor.put(key, record, append=last)  # in order, LMDB fills its pages, else it leaves a record's space

            return write

        self._environment.write_prepared(prepare, self._forget)
        return span_key.hex()

    def _forget(self) -> None:
        self._written = _Written()

    def begin_rollout(self, rollout_id: str, **given: Any) -> None:
        """See `headers.begin`."""
        headers.begin(self._environment, rollout_id, **given)

    def end_rollout(
        self, rollout_id: str, *, status: str, exit_code: int | None = None, ended_at: float | None = None
    ) -> None:
        """See `headers.end`."""
        headers.end(self._environment, rollout_id, status=status, exit_code=exit_code, ended_at=ended_at)

    def add_reward(self, rollout_id: str, value: float, name: str = FINAL, source: str = "") -> None:
        """Record a score; the last one of a name counts. Raises StoreError when `value` is no number."""
        headers.add_reward(self._environment, rollout_id, value, name, source)

    def add_event(self, rollout_id: str, **event: Any) -> None:
        """See `headers.add_event`."""
        headers.add_event(self._environment, rollout_id, **event)

    # -- reading -------------------------------------------------------------------------------------------

    def rollout_ids(self) -> list[str]:
        """Every rollout's id, in the order in which they began; without those that were dropped."""
        return [rollout_id for rollout_id, header in self.headers() if DROPPED not in header]

    def headers(self) -> list[tuple[str, dict[str, Any]]]:
        """Every rollout's id and header, those that were dropped included."""
        return self._environment.read(lambda txn: [(key[1:].hex(), unpack(data)) for key, data in scan(txn, HEADERS)])

    def rollouts(self) -> Iterator[Rollout]:
        """Every rollout with its spans, one at a time; each is read in a transaction of its own."""
        for rollout_id in self.rollout_ids():
            yield self.rollout(rollout_id)

    def rollout(self, rollout_id: str) -> Rollout:
        """The rollout with that id, or with the one id that begins so. Raises UnknownRollout."""
        key = self._find(rollout_id)

        def read(txn: Any) -> Rollout:
            header = unpack(txn.get(HEADERS + key))
            reader = SpanReader(txn)
            spans = [reader.read(key.hex(), at[-8:].hex(), data) for at, data in scan(txn, SPANS + key)]
            rewards = {reward.name: reward.value for reward in _rewards(txn, key)}
            events = [Event(**unpack(value)) for _, value in scan(txn, EVENTS + key)]
            return Rollout(rollout_id=key.hex(), rewards=rewards, spans=spans, events=events, **header)

        return self._environment.read(read)

    def rewards(self, rollout_id: str) -> list[Reward]:
        """Every score of the rollout in the order of recording, replaced ones included."""
        key = self._find(rollout_id)
        return self._environment.read(lambda txn: _rewards(txn, key))

    def _find(self, rollout_id: str) -> bytes:
        matches = (
            [known for known in self.rollout_ids() if known.startswith(rollout_id)] if len(rollout_id) < 32 else []
        )
        if len(matches) > 1:
            raise UnknownRollout(f"{len(matches)} rollouts in {self.path} have ids that begin with {rollout_id!r}")
        known = matches or len(rollout_id) >= 32
        key = key_of(matches[0] if matches else rollout_id) if known else b""
        if not key or self._environment.read(lambda txn: txn.get(HEADERS + key)) is None:
            raise UnknownRollout(f"no rollout {rollout_id!r} in {self.path}; `agentlight-store ls` lists them")
        return key


def scan(txn: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries whose key begins with `prefix` and goes on, in order."""
    cursor = txn.cursor()
    if cursor.set_range(prefix + b"\0"):
        for key, value in cursor:
            if not key.startswith(prefix):
                return
            yield bytes(key), bytes(value)


def _rewards(txn: Any, rollout: bytes) -> list[Reward]:
    return [
        Reward(at=int.from_bytes(key[17:25], "big") / 1e9, **unpack(value))
        for key, value in scan(txn, REWARDS + rollout)
    ]
