"""One request over http.client that is sent in parts, below `HTTPConnection.request`: recorded, and left as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from agentlight_instrumentation import context, dialects
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.guard import Guarded, lost
from agentlight_instrumentation.recognise import recognise
from agentlight_instrumentation.transports._http_client_wire import watched, whole_url

UNTOUCHED = "sent in parts (http.client's putrequest): nothing could be added to it, nor could it go elsewhere"


def parts_for(library: ModuleType, connection: Any, url: str) -> Parts | None:
    """None within a request that a library above carries, or urllib3, which reads replies below their methods."""
    if context.inside.get() is not None or any("urllib3" in kind.__module__ for kind in type(connection).__mro__):
        return None
    return Parts(library, connection, url)


class Parts:
    """What a connection sends between `putrequest` and `getresponse`."""

    def __init__(self, library: ModuleType, connection: Any, url: str) -> None:
        self._library, self._connection, self._url = library, connection, url
        self._sent: list[bytes] = []
        self._unread: str | None = None  # the kind of a body that only the library can read

    def keep(self, data: Any) -> Any:
        """`data`, or what stands for it, for the library's own `send`."""
        if hasattr(data, "read"):
            self._unread = type(data).__name__
            return data
        try:
            self._sent.append(bytes(memoryview(data)))
        except TypeError:
            return self._passing(data) if isinstance(data, Iterable) else data
        return data

    def _passing(self, pieces: Iterable[Any]) -> Iterator[Any]:
        for piece in pieces:
            self._sent.append(bytes(piece))
            yield piece

    def watched(self, getresponse: Callable[[], Any]) -> Any:
        """The response, its bytes passing through an exchange when the request is an LLM call."""
        exchange = None
        with Guarded("look at a request"):
            exchange = self._exchange()
        if exchange is None:
            return getresponse()
        try:
            response = getresponse()
        except BaseException as error:
            exchange.finish(error)
            raise
        with Guarded("watch a reply"):
            get = response.headers.get
            exchange.begin(response.status, get("content-type") or "", get("content-encoding") or "")
            return watched(response, exchange)
        return response

    def _exchange(self) -> Exchange | None:
        url = whole_url(self._library, self._connection, self._url)
        if self._unread is not None:
            _, suffix = dialects.find(urlsplit(url).path) or ("", "")
            lost(f"the body of a request to {suffix} is a {self._unread}, which can be read only once")
            return None
        head, _, body = b"".join(self._sent).partition(b"\r\n\r\n")
        is_chunked = b"\r\ntransfer-encoding: chunked" in head.lower()
        exchange = recognise("POST", url, _joined(body) if is_chunked else body)
        if exchange is not None:
            exchange.untouched = UNTOUCHED
        return exchange


def _joined(chunked: bytes) -> bytes:
    """A body without the sizes that HTTP's chunked encoding puts between its pieces."""
    pieces, at = [], 0
    while (end := chunked.find(b"\r\n", at)) >= 0:
        size = int(chunked[at:end].partition(b";")[0], 16)
        pieces.append(chunked[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
        if not size:
            break
    return b"".join(pieces)
