"""Server-sent events, byte for byte: cuts a stream into events and swaps the data of one; knows no dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END_OF_EVENT = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


class Events:
    """Feed bytes in any cut, get whole events (terminator included) out; `rest` is what is not complete yet."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        self.rest += chunk
        while match := _END_OF_EVENT.search(self.rest):
            event, self.rest = self.rest[: match.end()], self.rest[match.end() :]
            yield event


def data_of(event: bytes) -> bytes | None:
    """The event's data, its lines joined by newlines; None for a comment or an event without data."""
    lines = [line for line in _LINE.split(event) if line.startswith(b"data:")]
    if not lines:
        return None
    return b"\n".join(line[6:] if line.startswith(b"data: ") else line[5:] for line in lines)


def with_data(event: bytes, old: bytes, new: bytes) -> bytes:
    """The same event with other data; data over several lines is left as it is."""
    start = event.find(old)
    return event if start < 0 else event[:start] + new + event[start + len(old) :]
