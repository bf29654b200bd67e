"""aiohttp: sees a request where the session makes it, and a reply where the parser hands its bytes to the reader."""

from __future__ import annotations

import asyncio
from functools import cache
from types import ModuleType
from typing import Any
from weakref import WeakSet

from wrapt import wrap_function_wrapper

from agentlight_instrumentation import patience
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.flow import Course, drive_async
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.recognise import recognise
from agentlight_instrumentation.routing import Edit
from agentlight_instrumentation.servers import QUESTION, origin
from agentlight_instrumentation.transports._aiohttp_reader import holding, watched_reader

_patched: WeakSet[Any] = WeakSet()  # a reloaded library still has its old classes
# What the agent passes for its own server, and a policy is not to get.
_FOR_ITS_SERVER = {
    "auth", "cookies", "proxy", "proxy_auth", "proxy_headers", "ssl", "ssl_context", "verify_ssl", "fingerprint",
    "server_hostname",
}  # fmt: skip


def patch(library: ModuleType) -> None:
    if library.ClientSession in _patched:
        return
    _patched.add(library.ClientSession)
    reader = watched_reader(library)

    async def request(wrapped: Any, session: Any, args: Any, kwargs: Any) -> Any:
        wire = _wire(library, reader, wrapped, session, *args, **kwargs)
        if wire is None:
            return await wrapped(*args, **kwargs)
        return await wire.raised_for(await drive_async(Course(wire.exchange, wire)))

    wrap_function_wrapper(library, "ClientSession._request", request)


def _wire(
    library: ModuleType, reader: Any, wrapped: Any, session: Any, method: str, str_or_url: Any, **kwargs: Any
) -> _Wire | None:
    if method.upper() != "POST":
        return None
    with Guarded("look at a request"):
        url = session._build_url(str_or_url)
        if params := kwargs.get("params"):
            url = url.extend_query(params) if hasattr(url, "extend_query") else url.update_query(params)
        body = kwargs.get("data")
        if (value := kwargs.get("json")) is not None and body is None:
            encoded = session._json_serialize(value)
            body = encoded.encode() if isinstance(encoded, str) else encoded
        exchange = recognise("POST", str(url), body)
        if exchange is not None:
            return _Wire(library, reader, wrapped, session, str_or_url, url, kwargs, exchange)
    return None


class _Wire:
    def __init__(
        self, library: ModuleType, reader: Any, wrapped: Any, session: Any, asked: Any, url: Any, kwargs: Any,
        exchange: Exchange,
    ) -> None:  # fmt: skip
        self._library, self._reader, self._wrapped, self._session = library, reader, wrapped, session
        self._asked, self._url, self._kwargs = asked, url, kwargs
        self._is_unraised = False  # the library was told not to raise for the status: that is ours to do at the end
        self.exchange = exchange

    def limit(self, seconds: float) -> None:
        given = self._timeout
        limited = self._library.ClientTimeout(
            total=given.total,
            connect=given.connect,
            sock_connect=patience.shorter(given.sock_connect, seconds),
            sock_read=patience.shorter(given.sock_read, seconds),
        )
        self._kwargs = {**self._kwargs, "timeout": limited}

    @property
    def _timeout(self) -> Any:
        given = self._kwargs.get("timeout")
        return given if hasattr(given, "sock_read") else self._session._timeout

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @property
    def tries_again(self) -> bool:
        return patience.SDK_TRIES in self._session._prepare_headers(self._kwargs.get("headers"))

    async def send(self, edit: Edit | None) -> Any:
        if edit is None:
            noting: dict[str, Any] = {}
            with Guarded("note a status that the library raises for"):
                noting = {"raise_for_status": self._noted} if self._raises else {}
            return await self._wrapped("POST", self._asked, **{**self._kwargs, **noting})
        body = self.exchange.body if edit.body is None else edit.body
        self._is_unraised = True
        response = await self._request("POST", edit, data=body)
        with Guarded("hand over a reply"):
            if origin(edit.url) == origin(str(self._url)) and str(response._url) != edit.url:
                return response  # redirected: that is where it came from
            # The agent sees the request that it made.
            response._url = response._real_url = self._url
            if hasattr(response._request_info, "_replace"):
                response._request_info = response._request_info._replace(url=self._url, real_url=self._url)
        return response

    async def raised_for(self, response: Any) -> Any:
        """The response, or the error that the agent asked for in place of it."""
        if self._is_unraised:
            await self._raise_for(response)
        return response

    @property
    def _raises(self) -> Any:
        chosen: Any = self._kwargs.get("raise_for_status")
        return self._session._raise_for_status if chosen is None else chosen

    async def _raise_for(self, response: Any) -> None:
        chosen: Any = None
        with Guarded("see whether a reply is to be an error"):
            chosen = self._raises
        if callable(chosen):
            made: Any = chosen(response)
            await made
        elif chosen:
            response.raise_for_status()

    async def _noted(self, response: Any) -> None:
        """What the library calls where it would raise: the status is not in what it raises."""
        with Guarded("read the head of a reply"):
            self.exchange.begin(*self.head(response))
        await self._raise_for(response)

    async def get(self, edit: Edit) -> Any:
        within = self._library.ClientTimeout(total=patience.shorter(self._timeout.total, QUESTION))
        response = await self._request("GET", edit, timeout=within)
        async with response:
            return response.status, await response.read()

    async def read(self, response: Any) -> bytes:
        return await response.content.read()

    def head(self, response: Any) -> tuple[int, str, str]:
        encoding = response.headers.get("content-encoding", "")
        newer = hasattr(getattr(self._library, "compression_utils", None), "HAS_ZSTD")
        is_read = encoding.lower() in ("gzip", "deflate", "br", *(("zstd",) if newer else ()))
        unread = "" if is_read and self._decompresses else encoding  # else it has decompressed what passes
        return response.status, response.headers.get("content-type", ""), unread

    def replace(self, response: Any, body: bytes) -> Any:
        response.content = holding(self._library, body, response.content._loop)
        changes = {"content-length": str(len(body))} if "content-length" in response.headers else {}
        self._change_headers(response, changes)
        return self.watch(response)

    def watch(self, response: Any) -> Any:
        if isinstance(response.content, self._library.StreamReader):
            response.content = self._reader(response.content, self.exchange)
        else:  # a reply without a body
            self.exchange.finish()
        if self.exchange.decodes:
            self._change_headers(response, {})
        return response

    def broken(self, response: Any, error: Exception) -> Any:
        response.content.set_exception(error)
        return response

    def _change_headers(self, response: Any, changes: dict[str, str]) -> None:
        dropped = "content-encoding" if changes or self.exchange.decodes else ""
        kept = [
            (name, changes.get(name.lower(), value))
            for name, value in response.headers.items()
            if name.lower() != dropped
        ]
        response._headers = type(response.headers)(type(response.headers.copy())(kept))
        getattr(response, "_cache", {}).pop("headers", None)

    @property
    def _decompresses(self) -> bool:
        chosen = self._kwargs.get("auto_decompress")
        return bool(getattr(self._session, "_auto_decompress", True) if chosen is None else chosen)

    async def _request(self, method: str, edit: Edit, **data: Any) -> Any:
        """Through a session that adds nothing of the agent's own (headers, cookies, auth), but has its connections."""
        here = origin(edit.url) == origin(str(self._url))
        dropped = {*edit.dropped_headers, "content-length", *(() if here else ("host",))}
        session, same = self._session, edit.url == str(self._url)
        headers = session._prepare_headers(self._kwargs.get("headers"))
        if self._kwargs.get("json") is not None and "data" in data:
            # Not a header of ours: the library puts that of a payload last.
            data["data"] = self._library.BytesPayload(data["data"], content_type="application/json")
        kept = [(name, value) for name, value in headers.items() if name.lower() not in dropped]
        own = {"data", "json", "headers", *data, *(() if same else ("params",))}
        own |= set() if here else _FOR_ITS_SERVER
        data |= {"ssl": _default_trust()} if not here and edit.url.startswith("https:") else {}
        kwargs = {name: value for name, value in self._kwargs.items() if name not in own}
        kwargs["raise_for_status"] = False
        is_agents = method == "POST"
        if here and not is_agents:
            kwargs |= self._of_the_session(edit.url)
        bare = session if here and is_agents else self._library.ClientSession(
            connector=session._connector, connector_owner=False, cookie_jar=self._library.DummyCookieJar(),
            timeout=session._timeout, trust_env=session._trust_env, response_class=session._response_class,
            trace_configs=session._trace_configs if is_agents else None, auth=session._default_auth if here else None,
        )  # fmt: skip
        try:
            url = self._asked if same else edit.url
            return await self._wrapped.__func__(
                bare, method, url, headers=[*kept, *edit.headers.items()], **kwargs, **data
            )
        finally:
            if bare is not session:
                bare.detach()

    def _of_the_session(self, url: str) -> dict[str, Any]:
        """What the session adds to a request of the agent's and a bare one does not: its cookies, its proxy."""
        session, given = self._session, self._kwargs
        jar = session._cookie_jar.filter_cookies(type(self._url)(url))
        cookies = {name: cookie.value for name, cookie in jar.items()} | dict(given.get("cookies") or {})
        proxies = {name: getattr(session, f"_default_{name}", None) for name in ("proxy", "proxy_auth")}
        return {"cookies": cookies} | {name: given.get(name) or value for name, value in proxies.items()}


@cache
def _default_trust() -> Any:
    import ssl  # only where a policy speaks TLS

    return ssl.create_default_context()
