"""Whether a request is an LLM call: the one question that is asked of every request of the agent."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentlight_instrumentation import context, dialects
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.guard import lost
from agentlight_instrumentation.payload import UNREADABLE


def recognise(method: str, url: str, body: Any) -> Exchange | None:
    """The exchange for a request that is an LLM call, else None. Cheap for all other requests.

    A `body` that is neither bytes nor text could only be read once: it is left to the agent, and said to be lost.
    """
    if method != "POST" or not body or context.inside.get() is not None:
        return None
    found = dialects.find(urlsplit(url).path)
    if found is None:
        return None
    if isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes):
        if not isinstance(body, (bytearray, memoryview)):
            lost(f"the body of a request to {found[1]} is a {type(body).__name__}, which can be read only once")
            return None
        body = bytes(body)
    dialect = importlib.import_module(f"agentlight_instrumentation.dialects.{found[0]}")
    try:
        parsed = msgspec.json.decode(body)
    except UNREADABLE:
        return None  # not JSON: whatever it is, it is no call of this dialect
    if not isinstance(parsed, dict) or not dialect.is_call(parsed):
        return None
    return Exchange(found[0], dialect, url, found[1], body, parsed)
