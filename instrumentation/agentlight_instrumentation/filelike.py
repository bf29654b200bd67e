"""Replies that are read like files (urllib3, http.client): a subclass whose bytes pass through an exchange."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from agentlight_instrumentation.exchange import Exchange


def watch(response: Any, exchange: Exchange, *mixins: type) -> Any:
    """The same object, its bytes passing through `exchange` from now on; it looks like what it was."""
    response.__class__ = _watched(type(response), *mixins)
    response.exchange = exchange
    return response


@cache
def _watched(kind: Any, *mixins: type) -> Any:
    names: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    if not hasattr(kind, "read1"):  # urllib3 1.26; io.TextIOWrapper asks
        names["read1"] = _Missing()
    return type(kind.__name__, (*mixins, Tee, kind), names)


class _Missing:
    def __get__(self, *_: object) -> Any:
        raise AttributeError("read1")


class Tee:
    """What is read from the library's own methods is fed to the exchange; what that shows is what the agent reads."""

    exchange: Exchange
    failure: Exception | None = None  # what reading raises: the reply was cut off when we read it
    _pending = b""  # what the agent is to see and has not asked for yet
    _inside = False  # the library's methods call one another: the outermost feeds

    def read(self, amt: int | None = None, *args: Any, **kwargs: Any) -> bytes:
        read = partial(super().read, amt, *args, **kwargs)  # type: ignore[misc] # of the library's class
        return read() if self._inside else self._take(amt, amt, read)

    def read1(self, amt: int | None = -1, *args: Any, **kwargs: Any) -> bytes:
        read = partial(super().read1, amt, *args, **kwargs)  # type: ignore[misc]
        return read() if self._inside else self._take(amt, 1, read)

    def close(self) -> None:
        try:
            super().close()  # type: ignore[misc]
        finally:
            if "exchange" in self.__dict__:
                self.exchange.finish(left_early=True)

    def _take(self, most: int | None, least: int | None, read: Any) -> bytes:
        """At least `least` bytes and at most `most`, as far as there are so many; None is all."""
        most = None if most is not None and most < 0 else most
        while most is None or least is None or len(self._pending) < min(least, most):
            chunk = self._read(read)
            self._pending += self.exchange.feed(chunk) if chunk else self.exchange.held_back()
            if not chunk:
                self.exchange.finish()
            if not chunk or (least == 1 and self._pending):
                break
        if most is None:
            taken, self._pending = self._pending, b""
        else:
            taken, self._pending = self._pending[:most], self._pending[most:]
        return taken

    def _read(self, read: Any) -> Any:
        """What the library's own method gives; its error ends the exchange."""
        if self.failure is not None:
            raise self.failure
        self._inside = True
        try:
            return read()
        except Exception as error:
            self.exchange.finish(error)
            raise
        finally:
            self._inside = False
