"""requests: sees a prepared request where a session hands it to its adapter, below redirects and retries of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from io import BytesIO
from types import ModuleType
from typing import Any
from weakref import WeakSet

from wrapt import wrap_function_wrapper

from agentlight_instrumentation.exchange import Exchange, recognise
from agentlight_instrumentation.flow import converse, drive
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.routing import Edit
from agentlight_instrumentation.servers import origin

_patched: WeakSet[Any] = WeakSet()  # a reloaded library still has its old classes


def patch(library: ModuleType) -> None:
    if library.adapters.HTTPAdapter in _patched:
        return
    _patched.add(library.adapters.HTTPAdapter)

    def send(wrapped: Any, adapter: Any, args: Any, kwargs: Any) -> Any:
        wire = _wire(wrapped, args, kwargs)
        return wrapped(*args, **kwargs) if wire is None else drive(converse(wire.exchange, wire))

    wrap_function_wrapper(library, "adapters.HTTPAdapter.send", send)


def _wire(wrapped: Any, args: Any, kwargs: Any) -> _Wire | None:
    with Guarded("look at a request"):
        request = args[0] if args else kwargs["request"]
        body = request.body.encode() if isinstance(request.body, str) else request.body
        if request.method == "POST" and isinstance(body, bytes):
            exchange = recognise("POST", request.url, body)
            if exchange is not None:
                return _Wire(wrapped, request, args[1:], kwargs, exchange)
    return None


class _Wire:
    def __init__(self, wrapped: Any, request: Any, args: Any, kwargs: Any, exchange: Exchange) -> None:
        self._wrapped, self._request, self._args = wrapped, request, args
        self._kwargs = {name: value for name, value in kwargs.items() if name != "request"}
        self.exchange = exchange

    def send(self, edit: Edit | None) -> Any:
        response = self._wrapped(self._request if edit is None else self._edited(edit), *self._args, **self._kwargs)
        response.request, response.url = self._request, self._request.url  # as the agent made it
        return response

    def get(self, edit: Edit) -> Any:
        probe = self._request.copy()
        probe.method, probe.url, probe.body = "GET", edit.url, None
        self._drop(probe, edit, "content-length", "content-type")
        with self._wrapped(probe, *self._args, **{**self._kwargs, "stream": False}) as response:
            return response.status_code, response.content

    def read(self, response: Any) -> bytes:
        try:
            return b"".join(response.iter_content(1 << 16))  # which raises what requests raises, not urllib3's errors
        finally:
            response._content_consumed = False
            response.raw.release_conn()

    def head(self, response: Any) -> tuple[int, str, str]:
        # No encoding: what passes through `stream` and `read` below is decoded already.
        return response.status_code, response.headers.get("content-type", ""), ""

    def replace(self, response: Any, body: bytes) -> Any:
        raw = response.raw
        own = ("content-encoding", "content-length")
        headers = {name: value for name, value in raw.headers.items() if name.lower() not in own}
        if "content-length" in response.headers:
            headers["Content-Length"] = response.headers["content-length"] = str(len(body))
        response.raw = type(raw)(
            body=BytesIO(body), headers=headers, status=raw.status, version=raw.version, reason=raw.reason,
            preload_content=False, original_response=getattr(raw, "_original_response", None),
        )  # fmt: skip
        return self.watch(response, self.exchange)

    def watch(self, response: Any, exchange: Exchange) -> Any:
        response.raw.__class__ = _watched(type(response.raw))
        response.raw.exchange = exchange
        return response

    def _edited(self, edit: Edit) -> Any:
        request = self._request.copy()
        self._drop(request, edit)
        request.headers.update(edit.headers)
        if edit.body is not None:
            request.body = edit.body
            request.headers["Content-Length"] = str(len(edit.body))
        request.url = edit.url
        return request

    def _drop(self, request: Any, edit: Edit, *others: str) -> None:
        elsewhere = origin(edit.url) != origin(self._request.url)
        for name in (*edit.dropped_headers, *others, *(("host",) if elsewhere else ())):
            request.headers.pop(name, None)


@cache
def _watched(kind: Any) -> Any:
    """A subclass of urllib3's response whose bytes pass through `self.exchange`."""

    class WatchedResponse(kind):
        exchange: Exchange
        _pending = b""  # what the agent is to see and has not asked for yet
        _inside = False  # urllib3's `stream` calls its `read`: the outer of the two feeds

        def stream(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
            chunks = super().stream(*args, **kwargs)
            try:
                while (chunk := self._guarded(partial(next, chunks, None))) is not None:
                    if shown := self.exchange.feed(chunk):
                        yield shown
                if rest := self.exchange.held_back():
                    yield rest
                self.exchange.finish()
            finally:
                self.exchange.finish(left_early=True)  # when dropped, urllib3 is closed below us, without `close`

        def read(self, amt: int | None = None, *args: Any, **kwargs: Any) -> bytes:
            if self._inside:
                return super().read(amt, *args, **kwargs)
            return self._take(amt, amt, partial(super().read, amt, *args, **kwargs))

        def read1(self, amt: int | None = None, *args: Any, **kwargs: Any) -> bytes:
            if self._inside:
                return super().read1(amt, *args, **kwargs)
            return self._take(amt, 1, partial(super().read1, amt, *args, **kwargs))

        def _take(self, most: int | None, least: int | None, read: Any) -> bytes:
            most = None if most is not None and most < 0 else most
            while most is None or least is None or len(self._pending) < min(least, most):
                chunk = self._guarded(read)
                self._pending += self.exchange.feed(chunk) if chunk else self.exchange.held_back()
                if not chunk:
                    self.exchange.finish()
                if not chunk or (least == 1 and self._pending):
                    break
            taken, self._pending = self._pending[:most], self._pending[most:] if most is not None else b""
            return taken

        def _guarded(self, read: Any) -> Any:
            self._inside = True
            try:
                return read()
            except Exception as error:
                self.exchange.finish(error)
                raise
            finally:
                self._inside = False

        def close(self) -> None:
            try:
                super().close()
            finally:
                if "exchange" in self.__dict__:
                    self.exchange.finish(left_early=True)

    WatchedResponse.__name__, WatchedResponse.__qualname__ = kind.__name__, kind.__qualname__
    WatchedResponse.__module__ = kind.__module__
    return WatchedResponse
