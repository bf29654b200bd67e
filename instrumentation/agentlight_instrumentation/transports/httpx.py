"""httpx and httpx2, sync and async: sees a request where the client hands it to its transport, below redirects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from copy import copy
from functools import cache
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

from wrapt import wrap_function_wrapper

from agentlight_instrumentation import patience
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.flow import Course, drive, drive_async
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.recognise import recognise
from agentlight_instrumentation.routing import Edit
from agentlight_instrumentation.servers import QUESTION, origin

_patched: WeakSet[Any] = WeakSet()  # a reloaded library still has its old classes


def patch(library: ModuleType) -> None:
    if library.Client in _patched:
        return
    _patched.add(library.Client)
    watched, watched_async = _watched_streams(library)

    def send(wrapped: Any, client: Any, args: Any, kwargs: Any) -> Any:
        wire = _wire(library, watched, wrapped, args, kwargs)
        return wrapped(*args, **kwargs) if wire is None else drive(Course(wire.exchange, wire))

    async def send_async(wrapped: Any, client: Any, args: Any, kwargs: Any) -> Any:
        wire = _wire(library, watched_async, wrapped, args, kwargs, is_async=True)
        if wire is None:
            return await wrapped(*args, **kwargs)
        return await drive_async(Course(wire.exchange, wire))

    wrap_function_wrapper(library, "Client._send_single_request", send)
    wrap_function_wrapper(library, "AsyncClient._send_single_request", send_async)


def _wire(library: Any, watched: Any, wrapped: Any, args: Any, kwargs: Any, *, is_async: bool = False) -> _Wire | None:
    with Guarded("look at a request"):
        request = args[0] if args else kwargs["request"]
        if request.method == "POST":
            # Not `request.content`, which a request made by a redirect does not have.
            stream = request.stream
            body = b"".join(stream) if isinstance(stream, library.ByteStream) else stream
            exchange = recognise("POST", str(request.url), body)
            if exchange is not None:
                return (_AsyncWire if is_async else _Wire)(library, watched, wrapped, request, exchange)
    return None


class _Wire:
    def __init__(self, library: Any, watched: Any, wrapped: Any, request: Any, exchange: Exchange) -> None:
        self._library, self._watched, self._wrapped, self._request = library, watched, wrapped, request
        self.exchange = exchange
        self._limit: float | None = None

    def limit(self, seconds: float) -> None:
        self._limit = seconds

    def wait(self, seconds: float) -> Any:
        time.sleep(seconds)

    @property
    def tries_again(self) -> bool:
        return patience.SDK_TRIES in self._request.headers

    def send(self, edit: Edit | None) -> Any:
        return self._restored(self._wrapped(self._outgoing(edit)))

    def get(self, edit: Edit) -> Any:
        response = self._transport(edit).handle_request(self._probe(edit))
        try:
            return response.status_code, b"".join(response.stream)
        finally:
            response.stream.close()

    def read(self, response: Any) -> Any:
        try:
            return b"".join(response.stream)
        except self._library.RequestError as error:
            error.request = self._request
            raise
        finally:
            response.stream.close()

    def head(self, response: Any) -> tuple[int, str, str]:
        headers = response.headers
        return response.status_code, headers.get("content-type", ""), headers.get("content-encoding", "")

    def replace(self, response: Any, body: bytes) -> Any:
        if "content-length" in response.headers:
            response.headers["content-length"] = str(len(body))
        return self.watch(response, body)

    def watch(self, response: Any, body: bytes | None = None) -> Any:
        exchange = self.exchange
        if exchange.decodes:
            del response.headers["content-encoding"]
        if "_content" in response.__dict__:  # of a mock transport: nothing will pass any more
            content = exchange.feed(response.content) + exchange.held_back()
            response._content = content if body is None else body
            exchange.finish()
        else:
            response.stream = self._watched(response.stream, exchange, body)
        return response

    def broken(self, response: Any, error: Exception) -> Any:
        raise error

    def _transport(self, edit: Edit) -> Any:
        # The client itself would keep cookies of the reply, and log a request that the agent has not made.
        if origin(edit.url) != origin(self.exchange.url):
            _lead_elsewhere(self._library, self._wrapped.__self__, edit.url)
        return self._wrapped.__self__._transport_for_url(self._library.URL(edit.url))

    def _outgoing(self, edit: Edit | None) -> Any:
        request = self._request
        if edit is not None and origin(edit.url) != origin(self.exchange.url):
            with Guarded("reach a policy"):
                _lead_elsewhere(self._library, self._wrapped.__self__, edit.url)
        with Guarded("upgrade a request"):
            request = request if edit is None else self._edited(edit)
            if self._limit is not None:
                request = request if edit is not None else copy(request)
                request.extensions = request.extensions | {"timeout": _shorter(request, self._limit)}
        return request

    def _edited(self, edit: Edit) -> Any:
        body = self.exchange.body if edit.body is None else edit.body
        return self._remade(edit, "POST", body, (b"Content-Length", str(len(body)).encode()))

    def _probe(self, edit: Edit) -> Any:
        made = self._remade(edit, "GET", b"", dropped=("content-type",))
        made.extensions = made.extensions | {"timeout": _shorter(made, QUESTION)}
        return made

    def _remade(
        self, edit: Edit, method: str, body: bytes, *added: tuple[bytes, bytes], dropped: tuple[str, ...] = ()
    ) -> Any:
        """The agent's request with other parts; made like a copy, for a new one is parsed and checked all over."""
        request, library = self._request, self._library
        made = object.__new__(type(request))
        made.__dict__.update(request.__dict__)
        replaced = {*edit.dropped_headers, *edit.headers, *dropped, "content-length"}
        if edit.url != str(request.url):
            made.url = library.URL(edit.url)
            if origin(edit.url) != origin(str(request.url)):
                replaced.add("host")
                added = ((b"Host", made.url.netloc), *added)
        names = {name.encode() for name in replaced}
        headers = [*added, *(pair for pair in request.headers.raw if pair[0].lower() not in names)]
        headers += [(name.encode(), value.encode()) for name, value in edit.headers.items()]
        made.method, made.headers = method, library.Headers(headers)
        made._content, made.stream = body, library.ByteStream(body)
        return made

    def _restored(self, response: Any) -> Any:
        with Guarded("hand over a reply"):
            response.request = self._request  # the agent sees the request that it made
        return response


def _lead_elsewhere(library: Any, client: Any, url: str) -> None:
    """The client's trust and proxy are for the agent's server: a policy gets a transport of its own, where they matter.

    It is the client's for this origin from then on, and so is closed with it.
    """
    transport = client._transport_for_url(library.URL(url))
    own, pattern = type(transport), library._utils.URLPattern(origin(url))
    if own not in (library.HTTPTransport, library.AsyncHTTPTransport) or pattern in client._mounts:
        return
    pool, parts = transport._pool, urlsplit(url)
    if hasattr(pool, "_proxy_url"):
        named = getproxies().get(parts.scheme) or getproxies().get("all")
        if named and not proxy_bypass(parts.hostname or ""):
            return  # the environment's proxy leads to the policy as well
    elif parts.scheme == "http":
        return
    limits = library.Limits(
        max_connections=pool._max_connections, max_keepalive_connections=pool._max_keepalive_connections,
        keepalive_expiry=pool._keepalive_expiry,
    )  # fmt: skip
    made = own(verify=_default_trust(library), http2=pool._http2, limits=limits)
    client._mounts = {pattern: made, **client._mounts}


@cache
def _default_trust(library: Any) -> Any:
    return library.create_ssl_context()


def _shorter(request: Any, seconds: float) -> dict[str, Any]:
    """The request's timeouts, none of them longer than that."""
    own = request.extensions.get("timeout") or {}
    waits = {name: patience.shorter(own.get(name), seconds) for name in ("connect", "read", "write")}
    return {"pool": None, **own, **waits}


class _AsyncWire(_Wire):
    async def wait(self, seconds: float) -> Any:
        await asyncio.sleep(seconds)

    async def send(self, edit: Edit | None) -> Any:
        return self._restored(await self._wrapped(self._outgoing(edit)))

    async def get(self, edit: Edit) -> Any:
        response = await self._transport(edit).handle_async_request(self._probe(edit))
        try:
            return response.status_code, b"".join([chunk async for chunk in response.stream])
        finally:
            await response.stream.aclose()

    async def read(self, response: Any) -> Any:
        try:
            return b"".join([chunk async for chunk in response.stream])
        except self._library.RequestError as error:
            error.request = self._request
            raise
        finally:
            await response.stream.aclose()


def _watched_streams(library: Any) -> tuple[Any, Any]:
    class Watched:
        """The response's own stream, or `body` in its place."""

        def __init__(self, inner: Any, exchange: Exchange, body: bytes | None = None) -> None:
            self._inner, self._exchange, self._replaced = inner, exchange, body

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)  # httpx2 reads `elapsed` off the stream

        def __del__(self) -> None:
            if "_exchange" in self.__dict__:
                self._exchange.finish(left_early=True)

    # Two classes: httpx asks a stream for its class, and refuses the sync use of an async one.
    class WatchedStream(Watched, library.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            exchange = self._exchange
            try:
                for chunk in self._inner if self._replaced is None else (self._replaced,):
                    if shown := exchange.feed(chunk):
                        yield shown
            except Exception as error:
                exchange.finish(error)
                raise
            if rest := exchange.held_back():
                yield rest
            exchange.finish()

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._exchange.finish(left_early=True)

    class WatchedAsyncStream(Watched, library.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            exchange, inner = self._exchange, self._inner.__aiter__()
            try:
                if self._replaced is not None:
                    yield exchange.feed(self._replaced)
                else:
                    async for chunk in inner:
                        if shown := exchange.feed(chunk):
                            yield shown
            except Exception as error:
                exchange.finish(error)
                raise
            finally:
                # Left to the garbage collector, the generators below would be closed at the same time, and complain.
                if isinstance(inner, AsyncGenerator):
                    await inner.aclose()
            if rest := exchange.held_back():
                yield rest
            exchange.finish()

        async def aclose(self) -> None:
            try:
                await self._inner.aclose()
            finally:
                self._exchange.finish(left_early=True)

    return WatchedStream, WatchedAsyncStream
