"""One request over http.client: what `http_client.py` hands over once it has seen an LLM call."""

from __future__ import annotations

import time
from functools import partial
from io import BytesIO
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from agentlight_instrumentation import context, patience
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.filelike import Tee, watch
from agentlight_instrumentation.flow import Course, drive
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.recognise import recognise
from agentlight_instrumentation.routing import Edit
from agentlight_instrumentation.servers import QUESTION, origin


def wire_for(
    library: ModuleType, connection: Any, request: Any, url: str, body: Any, headers: Any, kwargs: Any
) -> Wire | None:
    """None for a request that is no LLM call after all; `request` is the library's own method, bound."""
    with Guarded("look at a request"):
        exchange = recognise("POST", whole_url(library, connection, url), body)
        if exchange is not None:
            return Wire(library, request, connection, url, dict(headers), kwargs, exchange)
    return None


def whole_url(library: ModuleType, connection: Any, url: str) -> str:
    if "://" in url:  # to a proxy
        return url
    scheme = "https" if isinstance(connection, getattr(library, "HTTPSConnection", ())) else "http"
    host, port = getattr(connection, "_tunnel_host", None), getattr(connection, "_tunnel_port", None)
    return f"{scheme}://{host or connection.host}:{port if host else connection.port}{url}"


def watched(response: Any, exchange: Exchange) -> Any:
    """The response, its bytes passing through the exchange."""
    return watch(response, exchange, _File)


class Wire:
    """Between `request` and `getresponse` of a connection, `course` is what is left to do."""

    def __init__(
        self, library: ModuleType, wrapped: Any, connection: Any, url: str, headers: dict[str, str], kwargs: Any,
        exchange: Exchange,
    ) -> None:  # fmt: skip
        self._library, self._wrapped, self._connection, self._url = library, wrapped, connection, url
        self._headers, self._kwargs = headers, kwargs
        self._sent_on = connection
        self.exchange = exchange

    def begin(self) -> Wire:
        """All up to the first request; what the reply leads to is left to `end`."""
        course = self.course = Course(self.exchange, self)
        context.inside.set(self.exchange)
        try:
            while True:
                is_sending = course.step.func == self.send
                try:
                    answer = self._request(*course.step.args) if is_sending else course.step()
                except BaseException as error:
                    course.over(None, error)  # raises it, unless there is another way to send
                    continue
                if is_sending:
                    break
                course.over(answer, None)
        finally:
            context.inside.set(None)
        return self

    def end(self) -> Any:
        """What `getresponse` returns."""
        response = error = None
        try:
            response = type(self._sent_on).getresponse(self._sent_on)
        except BaseException as caught:
            error = caught
        try:
            return self.course.response if self.course.over(response, error) else drive(self.course)
        finally:
            del error

    def limit(self, seconds: float) -> None:
        given = self._connection.timeout
        self._connection.timeout = patience.shorter(given, seconds)
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._connection.timeout)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self._connection.close()  # the reply that did not come would be read as the next one's

    @property
    def tries_again(self) -> bool:
        return any(name.lower() == patience.SDK_TRIES for name in self._headers)

    def send(self, edit: Edit | None) -> Any:
        self._request(edit)
        return type(self._sent_on).getresponse(self._sent_on)

    def get(self, edit: Edit) -> Any:
        connection, target = self._beside(edit.url)
        connection.timeout = patience.shorter(connection.timeout, QUESTION)
        try:
            dropped = {*edit.dropped_headers, "content-length", "content-type", "host"}
            connection.request("GET", target, headers=self._less(dropped))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def read(self, response: Any) -> bytes:
        return response.read()

    def head(self, response: Any) -> tuple[int, str, str]:
        get = response.headers.get
        return response.status, get("content-type") or "", get("content-encoding") or ""

    def replace(self, response: Any, body: bytes) -> Any:
        response.fp, response.length, response.chunked = BytesIO(body), len(body), False
        if "content-length" in response.headers:
            response.headers.replace_header("content-length", str(len(body)))
        return self.watch(response)

    def watch(self, response: Any) -> Any:
        response.agentlight_connection = self._sent_on  # which is closed when nobody holds it
        if self.exchange.decodes:
            del response.headers["content-encoding"], response.headers["content-length"]
        return watch(response, self.exchange, _File)

    def broken(self, response: Any, error: Exception) -> Any:
        watched = watch(response, self.exchange, _File)
        watched.failure = error
        return watched

    def _request(self, edit: Edit | None) -> None:
        if edit is None:
            return self._wrapped("POST", self._url, self.exchange.body, self._headers, **self._kwargs)
        body = self.exchange.body if edit.body is None else edit.body
        here = origin(edit.url) == origin(self.exchange.url)
        self._sent_on = self._connection if here else self._connect(edit.url)
        headers = self._less({*edit.dropped_headers, "content-length", *(() if here else ("host",))}) | edit.headers
        request = self._wrapped if here else partial(type(self._sent_on).request, self._sent_on)
        request("POST", edit.url if "://" in self._url and here else _path(edit.url), body, headers, **self._kwargs)

    def _less(self, dropped: set[str]) -> dict[str, str]:
        return {name: value for name, value in self._headers.items() if name.lower() not in dropped}

    def _beside(self, url: str) -> tuple[Any, str]:
        """A connection of our own to the server of `url`, and what to ask it for.

        To the agent's server it is a twin of the agent's, not connected yet: with its trust, through its proxy.
        """
        if origin(url) != origin(self.exchange.url):
            return self._connect(url), _path(url)
        made = object.__new__(type(self._connection))
        made.__dict__.update(self._connection.__dict__)
        made.sock, made._buffer, made._HTTPConnection__response = None, [], None
        made._HTTPConnection__state = self._library._CS_IDLE
        return made, url if "://" in self._url else _path(url)

    def _connect(self, url: str) -> Any:
        parts = urlsplit(url)
        kind = self._library.HTTPSConnection if parts.scheme == "https" else self._library.HTTPConnection
        return kind(parts.hostname, parts.port, timeout=self._connection.timeout)


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class _File(Tee):
    """What http.client's response has of a buffered file."""

    def readinto(self, buffer: Any) -> int:
        if self._inside:
            return super().readinto(buffer)  # type: ignore[misc]
        data = self.read(len(memoryview(buffer).cast("B")))
        memoryview(buffer).cast("B")[: len(data)] = data
        return len(data)

    def readline(self, limit: int = -1) -> bytes:
        if self._inside:
            return super().readline(limit)  # type: ignore[misc]
        limit = -1 if limit is None else limit
        while b"\n" not in self._pending and (limit < 0 or len(self._pending) < limit):
            known = len(self._pending)
            self._pending = self._take(-1, known + 1, partial(super().readline, -1))  # type: ignore[misc]
            if len(self._pending) == known:
                break
        end = self._pending.find(b"\n") + 1 or len(self._pending)
        line = self._pending[: end if limit < 0 else min(end, limit)]
        self._pending = self._pending[len(line) :]
        return line

    def peek(self, n: int = -1) -> bytes:
        if self._inside:
            return super().peek(n)  # type: ignore[misc]
        self._pending = self.read1(1 << 16 if n < 1 else n) if not self._pending else self._pending
        return self._pending
