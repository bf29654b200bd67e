"""urllib3, and so requests and botocore: sees a request where a pool sends it, each of the library's own retries."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from wrapt import wrap_function_wrapper

from agentlight_instrumentation import context, patience
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.filelike import Tee, watch
from agentlight_instrumentation.flow import Course, drive
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.recognise import recognise
from agentlight_instrumentation.routing import Edit
from agentlight_instrumentation.servers import QUESTION, origin

_patched: WeakSet[Any] = WeakSet()  # a reloaded library still has its old classes


def patch(library: ModuleType) -> None:
    pool_class = library.connectionpool.HTTPConnectionPool
    if pool_class in _patched:
        return
    _patched.add(pool_class)
    elsewhere = _pools(library)

    def urlopen(wrapped: Any, pool: Any, args: Any, kwargs: Any) -> Any:
        exchange = context.inside.get()
        if exchange is not None:
            with Guarded("note a retry"):
                _note_retries(exchange, kwargs.get("retries"))
            return wrapped(*args, **kwargs)
        wire = _wire(elsewhere, wrapped, pool, *args, **kwargs)
        return wrapped(*args, **kwargs) if wire is None else drive(Course(wire.exchange, wire))

    wrap_function_wrapper(library, "connectionpool.HTTPConnectionPool.urlopen", urlopen)


def _wire(
    elsewhere: Any, wrapped: Any, pool: Any, method: str, url: str, body: Any = None, headers: Any = None, *args: Any,
    **kwargs: Any,
) -> _Wire | None:  # fmt: skip
    with Guarded("look at a request"):
        port = f":{pool.port}" if pool.port else ""
        exchange = recognise(method, url if "://" in url else f"{pool.scheme}://{pool.host}{port}{url}", body)
        if exchange is not None:
            exchange.attempts = _attempts(args[0] if args else kwargs.get("retries"))
            headers = dict(pool.headers if headers is None else headers)
            return _Wire(elsewhere, wrapped, pool, url, headers, args, kwargs, exchange)
    return None


def _attempts(retries: Any) -> int:
    """How often urllib3 has tried before, redirects not counted."""
    return sum(one.redirect_location is None for one in getattr(retries, "history", ()))


def _note_retries(exchange: Exchange, retries: Any) -> None:
    """urllib3 tries again by calling itself: what came of the attempt before is in `retries`."""
    if _attempts(retries) > exchange.attempts:
        exchange.attempts = _attempts(retries)
        exchange.again(retries.history[-1].status, retries.history[-1].error)


def _pools(library: ModuleType) -> Any:
    """A function that gives the pool for a URL of another host than the agent's own pool is for."""
    managers: dict[int, Any] = {}

    def find(url: str) -> Any:
        manager = managers.get(os.getpid())  # after a fork the parent's sockets are not ours
        if manager is None:
            managers.clear()
            manager = managers[os.getpid()] = library.PoolManager()
        return manager.connection_from_url(url)

    return find


class _Wire:
    def __init__(
        self, elsewhere: Any, wrapped: Any, pool: Any, url: str, headers: dict[str, str], args: Any, kwargs: Any,
        exchange: Exchange,
    ) -> None:  # fmt: skip
        self._elsewhere, self._wrapped, self._pool, self._url = elsewhere, wrapped, pool, url
        self._headers, self._args, self._kwargs = headers, args, kwargs
        self.exchange = exchange

    def limit(self, seconds: float) -> None:
        self._kwargs = {**self._kwargs, "timeout": self._shorter(seconds)}

    def _shorter(self, seconds: float) -> Any:
        given = self._kwargs.get("timeout")
        given = self._pool.timeout if type(given) not in (int, float) and not hasattr(given, "read_timeout") else given
        plain = given if isinstance(given, (int, float)) else None
        waits = {name: patience.shorter(getattr(given, f"_{name}", plain), seconds) for name in ("connect", "read")}
        return type(self._pool.timeout)(**waits)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    @property
    def tries_again(self) -> bool:
        retries = self._args[0] if self._args else self._kwargs.get("retries")
        total = getattr(retries, "total", retries)
        return retries is None or (isinstance(total, int) and not isinstance(total, bool) and total > 0)

    def send(self, edit: Edit | None) -> Any:
        if edit is None:
            return self._wrapped("POST", self._url, self.exchange.body, self._headers, *self._args, **self._kwargs)
        body = self.exchange.body if edit.body is None else edit.body
        return self._request("POST", edit, body, *self._args, **self._kwargs)

    def get(self, edit: Edit) -> Any:
        kept = {name: value for name, value in self._kwargs.items() if name == "assert_same_host"}
        response = self._request("GET", edit, None, retries=False, timeout=self._shorter(QUESTION), **kept)
        return response.status, response.data

    def read(self, response: Any) -> bytes:
        if _is_preloaded(response):
            return response.data
        return b"".join(response.stream(1 << 16, decode_content=True))

    def head(self, response: Any) -> tuple[int, str, str]:
        # What passes through the methods below is decoded already, where the library can.
        encoding = response.headers.get("content-encoding", "")
        is_read = all(part.strip().lower() in response.CONTENT_DECODERS for part in encoding.split(","))
        return response.status, response.headers.get("content-type", ""), "" if is_read else encoding

    def replace(self, response: Any, body: bytes) -> Any:
        if "content-length" in response.headers:
            response.headers["Content-Length"] = str(len(body))
        response.headers.pop("content-encoding", None)
        if _is_preloaded(response):
            response._body = body
            return response
        replaced = type(response)(
            body=BytesIO(body), headers=response.headers, status=response.status, version=response.version,
            reason=response.reason, preload_content=False, retries=response.retries, request_method="POST",
            original_response=getattr(response, "_original_response", None), request_url=response.geturl(),
        )  # fmt: skip
        return self.watch(replaced)

    def watch(self, response: Any) -> Any:
        if self.exchange.decodes:
            response.headers.pop("content-encoding", None)
        if not _is_preloaded(response):
            return watch(response, self.exchange, _Stream)
        if not response.decode_content:
            self.exchange.arrives_as(response.headers.get("content-encoding", ""))
        response._body = self.exchange.feed(response.data) + self.exchange.held_back()
        self.exchange.finish()
        return response

    def broken(self, response: Any, error: Exception) -> Any:
        watched = watch(response, self.exchange, _Stream)
        watched.failure = error
        return watched

    def _request(self, method: str, edit: Edit, body: bytes | None, *args: Any, **kwargs: Any) -> Any:
        here = origin(edit.url) == origin(self.exchange.url)
        dropped = {*edit.dropped_headers, "content-length", *(() if here else ("host",))}
        if body is None:
            dropped.add("content-type")
        headers = {name: value for name, value in self._headers.items() if name.lower() not in dropped} | edit.headers
        if body is not None and any(name.lower() == "content-length" for name in self._headers):
            headers["Content-Length"] = str(len(body))
        if here:
            path = edit.url if "://" in self._url else _path(edit.url)
            return self._wrapped(method, path, body, headers, *args, **kwargs)
        return self._elsewhere(edit.url).urlopen(method, _path(edit.url), body, headers, *args, **kwargs)


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _is_preloaded(response: Any) -> bool:
    return getattr(response, "_body", None) is not None


class _Stream(Tee):
    """What urllib3's response has over a plain file."""

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        self._note_encoding(args[1] if len(args) > 1 else kwargs.get("decode_content"))
        chunks = super().stream(*args, **kwargs)  # type: ignore[misc] # of urllib3's class
        most = (args[0] if args else kwargs.get("amt", 1 << 16)) if self.exchange.edit.added else None
        try:
            while (chunk := self._read(partial(next, chunks, None))) is not None:
                yield from self._cut(self.exchange.feed(chunk), most)
            yield from self._cut(self.exchange.held_back(), most)
            self.exchange.finish()
        finally:
            self.exchange.finish(left_early=True)  # when dropped, urllib3 is closed below us, without `close`

    @staticmethod
    def _cut(shown: bytes, most: int | None) -> Iterator[bytes]:
        """What a rewritten stream shows comes an event at a time; the agent has asked for pieces of a size."""
        size = most or len(shown)
        for start in range(0, len(shown), size or 1):
            yield shown[start : start + size]

    def read(self, amt: int | None = None, decode_content: bool | None = None, *args: Any, **kwargs: Any) -> bytes:
        if not self._inside:
            self._note_encoding(decode_content)
        return super().read(amt, decode_content, *args, **kwargs)

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        if not self._inside:
            self._note_encoding(decode_content)
        return super().read1(amt, decode_content)

    def _note_encoding(self, decode_content: bool | None) -> None:
        decodes = self.decode_content if decode_content is None else decode_content  # type: ignore[attr-defined]
        if not decodes:
            self.exchange.arrives_as(self.headers.get("content-encoding", ""))  # type: ignore[attr-defined]
