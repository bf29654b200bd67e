"""http.client, and so urllib.request: sees what `HTTPConnection.request` sends and `getresponse` receives.

A request that is sent in parts, by `putrequest` and `send`, is recorded only.

Many a program imports http.client and never calls a model over it: nothing is imported here before one does.
"""

from __future__ import annotations

from functools import partial, wraps

from agentlight_instrumentation import dialects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_WIRE = "agentlight_wire"  # on a connection between `request` and `getresponse`
READABLE = (str, bytes, bytearray, memoryview)  # bodies that can be looked at before they are sent
_PARTS = "agentlight_parts"  # on a connection between `putrequest` and `getresponse`
_patched: list[Any] = []  # a reloaded library still has its old classes


def patch(library: ModuleType) -> None:
    connection_class = library.HTTPConnection
    if connection_class in _patched:
        return
    _patched.append(connection_class)
    own_request, own_getresponse = connection_class.request, connection_class.getresponse
    own_putrequest, own_send = connection_class.putrequest, connection_class.send

    def is_call(method: str, url: Any) -> bool:
        return method == "POST" and isinstance(url, str) and dialects.find(url.split("?")[0]) is not None

    def guarded(doing: str) -> Any:
        from agentlight_instrumentation.guard import Guarded

        return Guarded(doing)

    @wraps(own_request)
    def request(self: Any, method: str, url: str, body: Any = None, headers: Any = {}, **kwargs: Any) -> None:  # noqa: B006
        self.__dict__.pop(_WIRE, None)
        if body and isinstance(body, READABLE) and is_call(method, url):
            wire = None
            with guarded("look at a request"):
                from agentlight_instrumentation.transports._http_client_wire import wire_for

                wire = wire_for(library, self, own_request.__get__(self), url, body, headers, kwargs)
            if wire is not None:
                self.__dict__[_WIRE] = wire.begin()
                return
        own_request(self, method, url, body, headers, **kwargs)

    @wraps(own_getresponse)
    def getresponse(self: Any, *args: Any, **kwargs: Any) -> Any:
        wire, parts = self.__dict__.pop(_WIRE, None), self.__dict__.pop(_PARTS, None)
        if wire is not None:
            return wire.end()
        own = partial(own_getresponse, self, *args, **kwargs)
        return own() if parts is None else parts.watched(own)

    @wraps(own_putrequest)
    def putrequest(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        self.__dict__.pop(_PARTS, None)
        own_putrequest(self, method, url, *args, **kwargs)
        if is_call(method, url):
            with guarded("look at a request"):
                from agentlight_instrumentation.transports._http_client_parts import parts_for

                self.__dict__[_PARTS] = parts_for(library, self, url)

    @wraps(own_send)
    def send(self: Any, data: Any) -> None:
        parts = self.__dict__.pop(_PARTS, None)  # while it is sent: to connect may send something, too
        if parts is None:
            return own_send(self, data)
        with guarded("look at what is sent"):
            data = parts.keep(data)
        own_send(self, data)
        self.__dict__[_PARTS] = parts

    connection_class.request, connection_class.getresponse = request, getresponse
    connection_class.putrequest, connection_class.send = putrequest, send
