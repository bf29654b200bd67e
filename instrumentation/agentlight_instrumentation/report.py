"""What the agent's process tells the launcher: one JSON line an event, appended to a file that the launcher reads."""

from __future__ import annotations

import os

from agentlight_instrumentation import settings


def report(event: str, **details: object) -> None:
    """Append one event; a single O_APPEND write, so that lines of many processes never mix."""
    path = settings.get(settings.REPORT)
    if path is None:
        return
    line = _json({"event": event, "pid": os.getpid(), **details}) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return  # the launcher is gone (a daemon outlived it): nobody is left to be told
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _json(event: dict[str, object]) -> str:
    # By hand: importing json costs a bare `python -c pass` more than all else that start-up does.
    return "{" + ", ".join(f"{_string(key)}: {_value(value)}" for key, value in event.items()) + "}"


def _value(value: object) -> str:
    return str(value) if type(value) is int else _string(str(value))


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if " " <= c <= "~" else f"\\u{min(ord(c), 0xFFFF):04x}" for c in escaped) + '"'
