"""http.client, and so urllib.request: sees what `HTTPConnection.request` sends and `getresponse` receives.

Many a program imports http.client and never calls a model over it: nothing is imported here before one does.
"""

from __future__ import annotations

from functools import wraps

from agentlight_instrumentation import dialects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_WIRE = "agentlight_wire"  # on a connection between `request` and `getresponse`
_patched: list[Any] = []  # a reloaded library still has its old classes


def patch(library: ModuleType) -> None:
    connection_class = library.HTTPConnection
    if connection_class in _patched:
        return
    _patched.append(connection_class)
    own_request, own_getresponse = connection_class.request, connection_class.getresponse

    @wraps(own_request)
    def request(self: Any, method: str, url: str, body: Any = None, headers: Any = {}, **kwargs: Any) -> None:  # noqa: B006
        if method == "POST" and body and isinstance(url, str) and dialects.find(url.split("?")[0]) is not None:
            from agentlight_instrumentation.guard import Guarded

            wire = None
            with Guarded("look at a request"):
                from agentlight_instrumentation.transports._http_client_wire import wire_for

                bound = own_request.__get__(self)
                wire = wire_for(library, self, bound, url, body, headers, kwargs)
            if wire is not None:
                self.__dict__[_WIRE] = wire.begin()
                return
        own_request(self, method, url, body, headers, **kwargs)

    @wraps(own_getresponse)
    def getresponse(self: Any, *args: Any, **kwargs: Any) -> Any:
        wire = self.__dict__.pop(_WIRE, None)
        return own_getresponse(self, *args, **kwargs) if wire is None else wire.end()

    connection_class.request, connection_class.getresponse = request, getresponse
