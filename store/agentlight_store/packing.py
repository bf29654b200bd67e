"""Values to bytes and back: a total msgpack encoder, and token ids and log-probs as plain binary arrays."""

from __future__ import annotations

import sys
from array import array

import msgpack

TYPE_CHECKING = False  # the launcher comes here while the agent starts
if TYPE_CHECKING:
    from typing import Any

_SWAP = sys.byteorder == "big"  # the format is little-endian
_DEPTH_LIMIT = 200  # below msgpack's own limit of 511
_packers: list[msgpack.Packer] = []


def pack(value: Any) -> bytes:
    """Any value to msgpack; a part that msgpack cannot hold becomes its `repr`, the rest stays as it is."""
    try:
        return _packb(value)
    except Exception:  # huge integers, foreign objects, deep or circular nesting: rare, so only then walk the value
        return _packb(_plain(value, _DEPTH_LIMIT))


def _packb(value: Any) -> bytes:
    # Making a packer takes longer than packing a message. One in use is in nobody else's reach: amid `pack` the
    # garbage collector may finalise a stream, and that packs as well. One that has failed is not used again.
    packer = _packers.pop() if _packers else msgpack.Packer(unicode_errors="surrogatepass")
    packed: Any = packer.pack(value)
    _packers.append(packer)
    return packed


def unpack(data: bytes) -> Any:
    try:
        return msgpack.unpackb(data, unicode_errors="surrogatepass", strict_map_key=False)
    except TypeError:  # a tuple as a key comes back as a list, which no dict holds
        return msgpack.unpackb(data, unicode_errors="surrogatepass", strict_map_key=False, object_pairs_hook=_pairs)


def _pairs(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {repr(key) if isinstance(key, (list, dict)) else key: value for key, value in pairs}


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, float, str, bytes)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else repr(value)
    if depth and isinstance(value, dict):
        return {_plain_key(key): _plain(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [_plain(item, depth - 1) for item in value]
    return _safe_repr(value)


def _plain_key(key: Any) -> Any:
    plain = _plain(key, 0)
    return plain if isinstance(plain, (str, bytes, int)) else _safe_repr(key)


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)[:1000]
    except Exception:  # a foreign __repr__ may do anything; the field is lost, the span is not
        return f"<{type(value).__name__}>"


def ids_to_bytes(ids: Any) -> bytes:
    """Token ids to uint32 bytes. Raises OverflowError or TypeError for anything that is no token id."""
    return _to_bytes(ids if isinstance(ids, array) and ids.typecode == "I" else array("I", ids))


def floats_to_bytes(values: Any) -> bytes:
    """Log-probs to float32 bytes; None (the server's null) becomes NaN."""
    if isinstance(values, array) and values.typecode == "f":
        return _to_bytes(values)
    nan = float("nan")
    return _to_bytes(array("f", [nan if value is None else value for value in values]))


def ids_from_bytes(data: bytes) -> array[int]:
    return _from_bytes("I", data)


def floats_from_bytes(data: bytes) -> array[float]:
    return _from_bytes("f", data)


def _to_bytes(values: array) -> bytes:
    if _SWAP:
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _from_bytes(typecode: str, data: bytes) -> array:
    values = array(typecode)
    values.frombytes(data)
    if _SWAP:
        values.byteswap()
    return values
