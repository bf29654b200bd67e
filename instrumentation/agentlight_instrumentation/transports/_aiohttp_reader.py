"""The body of an aiohttp reply: a reader whose bytes pass through an exchange, or that holds other bytes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from agentlight_instrumentation.exchange import Exchange


class _NoProtocol:
    """The reader below does what has to be done to the connection."""

    def pause_reading(self, *_: object, **__: object) -> None:
        return

    resume_reading = pause_reading


def watched_reader(library: ModuleType) -> Any:
    class Watched(library.StreamReader):
        """Fed by the library's own reader whenever the agent waits for bytes; what passes goes through the exchange."""

        # Not fed by the parser: that holds the library's reader, whose class can neither be changed nor told apart.
        def __init__(self, inner: Any, exchange: Exchange) -> None:
            super().__init__(_NoProtocol(), 1 << 30, loop=inner._loop)
            self._inner, self._exchange = inner, exchange

        async def _wait(self, func_name: str) -> None:
            try:
                data = await self._inner.readany()
            except Exception as error:
                self._exchange.finish(error)
                super().set_exception(error)
                raise
            self._pass(data)

        def _pass(self, data: bytes) -> None:
            exchange = self._exchange
            super().feed_data(exchange.feed(data) if data else exchange.held_back())
            if not data:
                exchange.finish()
                super().feed_eof()

        async def readchunk(self) -> tuple[bytes, bool]:
            while not self._buffer and not self._eof:
                data, ends = await self._inner.readchunk()
                if data or not ends:
                    self._pass(data)
                if self._buffer or (ends and not data):
                    return super().read_nowait(-1), ends
            return await super().readchunk()

        def read_nowait(self, n: int = -1) -> bytes:
            if not self._eof and (data := self._inner.read_nowait(-1)):
                self._pass(data)
            return super().read_nowait(n)

        def is_eof(self) -> bool:
            return self._inner.is_eof() and (self._eof or not self._inner._buffer)

        def at_eof(self) -> bool:
            return not self._buffer and (self._eof or self._inner.at_eof())

        def on_eof(self, callback: Any) -> None:
            self._inner.on_eof(callback)

        def set_exception(self, exc: Any, *cause: Any) -> None:
            self._exchange.finish(left_early=True)  # the agent has closed the reply
            self._inner.set_exception(exc, *cause)
            super().set_exception(exc, *cause)

        def __del__(self) -> None:
            if "_exchange" in self.__dict__:
                self._exchange.finish(left_early=True)

    Watched.__name__ = Watched.__qualname__ = "StreamReader"
    Watched.__module__ = library.StreamReader.__module__
    return Watched


def holding(library: ModuleType, body: bytes, loop: Any) -> Any:
    """A reader of the library's that has all of `body`."""
    reader = library.StreamReader(_NoProtocol(), 1 << 30, loop=loop)
    reader.feed_data(body)
    reader.feed_eof()
    return reader
