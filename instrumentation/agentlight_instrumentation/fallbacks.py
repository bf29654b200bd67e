"""What the agent gets when following its reply fails in a way that nobody foresaw: its own bytes; the loss is said."""

from __future__ import annotations

import os
from functools import wraps
from typing import Any

from agentlight_instrumentation import settings
from agentlight_instrumentation.guard import lost


def fail_safe(kind: Any) -> Any:
    """Class decorator of Exchange: what transports call of it never raises an Exception.

    After a failure the exchange is abandoned: what arrives later passes as it is.
    """
    for name, otherwise in OTHERWISE.items():
        setattr(kind, name, _never_raising(getattr(kind, name), name, otherwise))
    for name in ("decodes", "rewrites_whole"):
        getter = getattr(kind, name).fget
        setattr(kind, name, property(_never_raising(getter, name, lambda *_: False), doc=getter.__doc__))
    kind.feed = _feeding(kind.feed)
    return kind


# A method's name -> what it gives instead, from the exchange and the method's arguments.
OTHERWISE: dict[str, Any] = {
    "arrives_as": lambda exchange, *_: None,
    "again": lambda exchange, *_: None,
    "begin": lambda exchange, *_: None,
    "finish": lambda exchange, *_: None,
    "held_back": lambda exchange: _taken_rest(exchange),
    "names_an_added_field": lambda exchange, *_: True,  # once more without: so the agent's own request decides
    "whole": lambda exchange, body: body,
}


def _never_raising(method: Any, name: str, otherwise: Any) -> Any:
    @wraps(method)
    def call(exchange: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(exchange, *args, **kwargs)
        except Exception as error:
            abandon(exchange, name, error)
            return otherwise(exchange, *args)

    return call


def _feeding(feed: Any) -> Any:
    @wraps(feed)
    def call(exchange: Any, chunk: bytes) -> bytes:
        framing = exchange._framing
        held = framing.rest if framing is not None else b""
        try:
            return feed(exchange, chunk)
        except Exception as error:
            abandon(exchange, "feed", error)
            _taken_rest(exchange)
            return held + chunk if exchange.edit.added else chunk

    return call


def abandon(exchange: Any, doing: str, error: Exception) -> None:
    """Record nothing more of it. Raises the error under our own tests."""
    exchange._finished = True
    if os.environ.get(settings.RAISE):
        raise error
    lost(f"could not follow a reply ({doing}): {type(error).__name__}: {error}")


def _taken_rest(exchange: Any) -> bytes:
    """What was held back of a stream that is rewritten."""
    framing = exchange._framing
    if framing is None or not exchange.edit.added:
        return b""
    rest, framing.rest = framing.rest, b""
    return rest
