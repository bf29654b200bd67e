"""What every dialect shares: the shape of a reader, token ids and log-probs out of JSON, and added values taken out."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec

from agentlight_store.span import Choice

UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)  # what `Reader.add` raises for a foreign payload
NAN = float("nan")
# Literals that Python writes and JSON does not know, as numbers of the same length: offsets stay what they are.
_LITERALS = {b"NaN": b"9e9", b"Infinity": b"9.0000e9", b"-Infinity": b"-9.0000e9"}
_LITERAL = re.compile(rb'"(?:[^"\\]|\\.)*"|-?Infinity|NaN', re.DOTALL)
_NOT_FINITE = 8e9  # what is larger stands for one of them, in float32 too

_ids = msgspec.json.Decoder(list[int])


class Reader:
    """Collects one reply from its JSON payloads: one when whole, one an event or line when streamed.

    `added` names the request fields that were added for capture; what they put into the reply is taken out of the
    payload that the agent gets to see. `request` is the request's JSON object.
    """

    why_no_ids = "no token ids in the reply"  # of a vLLM server
    prompt_ids: array[int] | None = None
    error: str | None = None
    done = False  # the reply's last payload has been read: nothing of interest follows

    def __init__(self, added: frozenset[str] = frozenset(), request: dict[str, Any] | None = None) -> None:
        self._added = added
        self._request = request or {}
        self.usage: dict[str, int] = {}

    def add(self, payload: bytes) -> bytes | None:
        """Read one payload; returns it as the agent would have got it, None for one that it would not have got.

        Raises one of UNREADABLE for a payload that is not of this dialect.
        """
        raise NotImplementedError

    def choices(self) -> list[Choice]:
        raise NotImplementedError

    def count(self, input_tokens: Any, output_tokens: Any) -> None:
        """Note the usage that the server tells; a count that is no number is none."""
        for name, count in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
            if isinstance(count, int):
                self.usage[name] = count

    def fail(self, error: Any) -> None:
        """Note the error that the server tells, in any of the usual shapes."""
        if error is not None:
            message = error.get("message") if isinstance(error, dict) else None
            self.error = str(message or error)[:500]


def read(decoder: Any, payload: bytes) -> tuple[Any, bytes]:
    """The decoded payload, and the bytes that it was decoded from: of the same length, NaN and Infinity replaced."""
    try:
        return decoder.decode(payload), payload
    except msgspec.DecodeError:
        if b"NaN" not in payload and b"Infinity" not in payload:
            raise
    payload = _LITERAL.sub(lambda found: _LITERALS.get(found[0], found[0]), payload)
    return decoder.decode(payload), payload


def token_ids(raw: bytes) -> array[int]:
    return ids_of(_ids.decode(raw))


def ids_of(numbers: Any) -> array[int]:
    """Raises ValueError for what is no list of uint32."""
    try:
        return array("I", numbers)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"no token ids: {error}") from error


def logprobs_of(values: Sequence[float | None]) -> array[float]:
    """NaN where the server gave none."""
    try:
        found = array("f", values)  # type: ignore[arg-type] # None is a TypeError
        if not found or (min(found) > -_NOT_FINITE and max(found) < _NOT_FINITE):
            return found
    except TypeError:
        pass
    return array("f", [NAN if value is None or abs(value) >= _NOT_FINITE else value for value in values])


class Tokens:
    """The ids and log-probs of one choice as they come; None for what never came."""

    ids: array[int] | None = None
    logprobs: array[float] | None = None

    def add_ids(self, raw: bytes) -> None:
        if self.ids is None:
            self.ids = token_ids(raw)
        else:
            self.ids.extend(token_ids(raw))

    def add_logprobs(self, values: Sequence[float | None]) -> None:
        if self.logprobs is None:
            self.logprobs = logprobs_of(values)
        else:
            self.logprobs.extend(logprobs_of(values))


class Cuts:
    """Values to be taken out of a payload; `read_from` is what the values were decoded from."""

    __slots__ = ("_found", "_read_from")

    def __init__(self, read_from: bytes) -> None:
        self._read_from = read_from
        self._found: list[tuple[int, int, bytes]] = []

    def replace(self, key: bytes, value: bytes, by: bytes = b"null") -> None:
        """`by` takes the place of `value` after `key` (b'"name":'), as the server writes it for who did not ask.

        Inside a JSON string a quote is escaped: a key with bare quotes is never text of the model. Raises ValueError
        where the value does not stand after the key.
        """
        if value == by or not value:
            return
        text = self._read_from
        # From the end, where vLLM writes ids; a search for the key alone, not for kilobytes of value.
        found = text.rfind(key)
        while found >= 0:
            start = found + len(key)
            start += text.startswith(b" ", start)
            if text.startswith(value, start):
                cut = (start, start + len(value), by)
                if cut not in self._found:
                    self._found.append(cut)
                    return
            found = text.rfind(key, 0, found)
        raise ValueError(f"cannot take {key.decode()} out of the reply")

    def apply(self, payload: bytes) -> bytes:
        """The payload as it came, all else byte for byte."""
        if not self._found:
            return payload
        pieces, position = [], 0
        self._found.sort()
        for start, end, by in self._found:
            pieces += (payload[position:start], by)
            position = end
        pieces.append(payload[position:])
        return b"".join(pieces)


def not_set(body: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Of the fields to add, those that the request does not set itself; null sets nothing."""
    return {name: value for name, value in fields.items() if body.get(name) is None}


def without(body: bytes, names: list[str]) -> bytes:
    """The JSON object without these members; the other values stay as they are written."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    kept = [msgspec.json.encode(name) + b":" + bytes(raw) for name, raw in members.items() if name not in names]
    return b"{" + b",".join(kept) + b"}"


def renamed(settings: Any, names: dict[str, str]) -> dict[str, Any]:
    """The sampling settings that are set, under the names that all dialects share; `names` maps theirs to ours."""
    if not isinstance(settings, dict):
        return {}
    return {ours: settings[theirs] for theirs, ours in names.items() if settings.get(theirs) is not None}


def text_of(parts: list[str]) -> str | None:
    return "".join(parts) if parts else None


def tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """One tool call, in the one shape that is recorded; arguments that are no text become their JSON."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return {"id": call_id, "type": "function", "function": {"name": str(name or ""), "arguments": text}}


def list_of_dicts(value: Any) -> list[dict[str, Any]]:
    """Of a list, its objects; of anything else nothing."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
