"""Token ids and messages stored once: content-addressed chains, so that a turn costs what is new in it.

A token node is `parent (16 bytes) | keep (uint32) | ids`: the first `keep` tokens of the parent's whole sequence,
then its own. A list node is `parent (16 bytes) | msgpack`: a list that ends in this value.

The name of a node is made of its bytes: `chain (2) | depth (2, big-endian) | BLAKE2b-96 digest`. The digest tells
nodes apart. Chain and depth put the nodes of one conversation side by side in the order of writing, since LMDB copies
every page that a commit changes: the chain is zero for the first nodes, which many conversations share, then
the beginning of a digest, and from there on that of the parent. The root is sixteen zero bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any

from agentlight_store.environment import LISTS, TOKENS
from agentlight_store.errors import StoreError
from agentlight_store.packing import pack, unpack

ROOT = bytes(16)
_HEADER = 20  # parent and keep
_CHAIN_BEGINS = 3  # the depth: after a system prompt and a task, what the model makes of them
_WORTH_SHARING = 32 * 4  # bytes; a shorter common prefix costs more as a reference than as tokens
_ROLLOUTS_REMEMBERED = 32
_TIPS_REMEMBERED = 8  # open lineages a rollout: sub-agents, parallel calls


def name_of(node: bytes) -> bytes:
    digest = blake2b(node, digest_size=12).digest()
    depth = min(int.from_bytes(node[2:4], "big") + 1, 0xFFFF)
    chain = digest[:2] if depth == _CHAIN_BEGINS else node[:2]
    return chain + depth.to_bytes(2, "big") + digest


def put_node(txn: Any, kind: bytes, node: bytes) -> bytes:
    name = name_of(node)
    txn.put(kind + name, node, overwrite=False)
    return name


class TokenTips:
    """What this process wrote last for each rollout: the sequences that the next prompt probably extends."""

    def __init__(self) -> None:
        self._tips: OrderedDict[bytes, OrderedDict[bytes, bytes]] = OrderedDict()

    def put(self, txn: Any, rollout: bytes, ids: bytes) -> bytes:
        """Store a whole sequence, sharing the longest prefix known for the rollout; returns its key."""
        parent, keep = ROOT, 0
        # The newest first: a conversation goes on where it was, and all others are told from it by one token.
        for key, known in reversed(self._tips.get(rollout, {}).items()):
            if known[keep - 4 : keep] == ids[keep - 4 : keep]:
                shared = common_prefix(known, ids)
                if shared >= keep and shared >= _WORTH_SHARING:
                    parent, keep = key, shared
        if parent is not ROOT and keep == len(ids) == len(self._tips[rollout][parent]):
            return parent
        return self.extend(txn, rollout, parent, ids[:keep], ids[keep:])

    def extend(self, txn: Any, rollout: bytes, parent: bytes, before: bytes, ids: bytes) -> bytes:
        """Store `ids` behind the sequence `before`, which is the first part of what `parent` stands for."""
        node = parent + (len(before) // 4).to_bytes(4, "little") + ids
        key = put_node(txn, TOKENS, node)
        tips = self._tips.setdefault(rollout, OrderedDict())
        self._tips.move_to_end(rollout)
        tips[key] = before + ids
        tips.move_to_end(key)
        if len(tips) > _TIPS_REMEMBERED:
            tips.popitem(last=False)
        if len(self._tips) > _ROLLOUTS_REMEMBERED:
            self._tips.popitem(last=False)
        return key


def common_prefix(a: bytes, b: bytes) -> int:
    """The length in bytes of the longest common prefix, in whole uint32 tokens; by bisection over memcmp."""
    low, high = 0, min(len(a), len(b)) // 4
    if b.startswith(a) or a[: high * 4] == b[: high * 4]:
        return high * 4
    while low < high:
        middle = (low + high + 1) // 2
        if a[low * 4 : middle * 4] == b[low * 4 : middle * 4]:  # what is before is known to be equal
            low = middle
        else:
            high = middle - 1
    return low * 4


def read_tokens(txn: Any, key: bytes, cache: dict[bytes, bytes]) -> bytes:
    """The whole sequence that `key` stands for, as uint32 bytes."""
    path: list[tuple[bytes, int, bytes]] = []
    while key != ROOT and key not in cache:
        node = txn.get(TOKENS + key)
        if node is None:
            raise StoreError(f"token segment {key.hex()} is missing")
        path.append((key, int.from_bytes(node[16:_HEADER], "little"), bytes(node[_HEADER:])))
        key = bytes(node[:16])
    ids = cache[key] if key != ROOT else b""
    for node_key, keep, own in reversed(path):
        if keep * 4 > len(ids):
            raise StoreError(f"token segment {node_key.hex()} keeps {keep} tokens of a parent with {len(ids) // 4}")
        ids = cache[node_key] = ids[: keep * 4] + own
    return ids


def put_list(txn: Any, values: list[Any]) -> bytes:
    """Store a list of values (messages, say); lists that begin alike share their beginning."""
    key = ROOT
    for value in values:
        key = put_node(txn, LISTS, key + pack(value))
    return key


def read_list(txn: Any, key: bytes, cache: dict[bytes, list[Any]]) -> list[Any]:
    path: list[tuple[bytes, Any]] = []
    while key != ROOT and key not in cache:
        node = txn.get(LISTS + key)
        if node is None:
            raise StoreError(f"message {key.hex()} is missing")
        path.append((key, unpack(node[16:])))
        key = bytes(node[:16])
    values = cache[key] if key != ROOT else []
    for node_key, value in reversed(path):
        values = cache[node_key] = [*values, value]
    return list(values)
