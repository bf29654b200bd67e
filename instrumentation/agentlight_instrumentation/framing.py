"""Where one payload of a reply ends and the next begins, byte for byte, by content type; knows no dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

_END_OF_EVENT = re.compile(rb"\n\r?\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]"]', re.DOTALL)
_SPACE = b" \t\r\n"


class Framing(Protocol):
    """Feed bytes in any cut, get whole frames out; the frames and `rest`, joined, are what was fed."""

    rest: bytes  # not complete yet

    def feed(self, chunk: bytes) -> Iterator[bytes]: ...

    def payload(self, frame: bytes) -> bytes | None:
        """What the frame carries; None for one that carries nothing."""
        ...


def framing(content_type: str) -> Framing | None:
    """How a reply of this content type is cut; None for one that comes whole."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return Events()
    if kind in ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-lines"):
        return Lines()
    return None


class Events:
    """Server-sent events, each with its terminator."""

    def __init__(self) -> None:
        self.rest = b""
        self._searched = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        data, start = self.rest + chunk if self.rest else chunk, 0
        search = max(self._searched - 2, 0)  # a terminator may have been cut
        while match := _END_OF_EVENT.search(data, max(search, start)):
            event, start = data[start : match.end()], match.end()
            # Before the next step: what is fed may be asked for `rest` in between.
            self.rest, self._searched = data[start:] if start < len(data) else b"", 0
            yield event
        self.rest = data[start:] if start else data
        self._searched = len(self.rest)

    def payload(self, frame: bytes) -> bytes | None:
        """The event's data, its lines joined by newlines; None for a comment or an event without data."""
        if frame.startswith(b"data: ") and frame.find(b"\n") == len(frame) - 2 and b"\r" not in frame:
            return frame[6:-2]
        lines = [line for line in _LINE.split(frame.removeprefix(b"\xef\xbb\xbf")) if line.startswith(b"data:")]
        if not lines:
            return None
        return b"\n".join(line[6:] if line.startswith(b"data: ") else line[5:] for line in lines)


class Lines:
    """One JSON value a line."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *lines, rest = (self.rest + chunk).split(b"\n")
        self.rest = rest
        for line in lines:
            yield line + b"\n"

    def payload(self, frame: bytes) -> bytes | None:
        return frame.strip(_SPACE) or None


def with_payload(frame: bytes, old: bytes, new: bytes) -> bytes:
    """The same frame with another payload; one over several lines is left as it is."""
    start = frame.find(old)
    return frame if start < 0 or old is new else frame[:start] + new + frame[start + len(old) :]


def elements(body: bytes) -> list[bytes]:
    """The objects of a JSON array as far as it has arrived; a body that is no array is its own one element."""
    if not body.lstrip(_SPACE).startswith(b"["):
        return [body]
    found, depth, start = [], 0, 0
    for match in _STRUCTURE.finditer(body):
        mark = match[0]
        if mark == b'"':  # a string that has not arrived to its end
            break
        if mark in (b"{", b"["):
            depth += 1
            start = match.start() if depth == 2 else start
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 1:
                found.append(body[start : match.end()])
    return found
