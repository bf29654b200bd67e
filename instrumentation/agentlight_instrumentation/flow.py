"""The course of one exchange, the same for sync and async: a generator that yields what the transport is to do.

`converse` yields functions of no argument; `drive` calls each, `drive_async` awaits what each returns, and both
send the result back in. So probing, retrying and recording are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol

from agentlight_instrumentation import patience, servers
from agentlight_instrumentation.context import inside
from agentlight_instrumentation.exchange import Exchange
from agentlight_instrumentation.guard import Guarded, is_ours
from agentlight_instrumentation.routing import Edit

Steps = Generator[Callable[[], Any], Any, Any]


class Wire(Protocol):
    """What a transport file offers for one request. `send`, `get` and `read` may return awaitables."""

    def send(self, edit: Edit | None) -> Any:
        """Send the request, edited; None sends the agent's own. Returns the library's response, body unread."""

    def get(self, edit: Edit) -> Any:
        """GET `edit.url` with the request's own headers, less the dropped ones; returns (status, body).

        Waits no longer than `servers.QUESTION`, and leaves no trace that the agent sees.
        """

    def limit(self, seconds: float) -> None:
        """From now on `send` waits no longer than this for the server's next bytes."""

    def wait(self, seconds: float) -> Any:
        """Do nothing for so long."""

    @property
    def tries_again(self) -> bool:
        """True when the SDK or the library makes a failed request once more itself."""
        ...

    def read(self, response: Any) -> Any:
        """The whole body as it came over the wire; the response stays usable through `replace`."""

    def head(self, response: Any) -> tuple[int, str, str]:
        """Status, content type, content encoding."""
        ...

    def replace(self, response: Any, body: bytes) -> Any:
        """The response with this body in place of the one that `read` took; watched as by `watch`."""

    def watch(self, response: Any) -> Any:
        """The response, its body passing through `exchange.feed` and ending in `exchange.finish`."""

    def broken(self, response: Any, error: Exception) -> Any:
        """`read` failed: raises the error, or returns a response that raises it when the agent reads."""


def converse(exchange: Exchange, wire: Wire) -> Steps:
    """Send the agent's request, upgraded where that is known to work, and return the response it is to get."""
    question = None
    with Guarded("look up the server"):
        question = exchange.asks_server
    if question is not None:
        try:
            answer = yield partial(wire.get, question)
        except Exception as error:
            answer = None  # the server is down: the agent's own request will tell the agent
            is_ours(error, "ask a server what it is")
            servers.did_not_answer(question.url, type(error).__name__)
        if answer is not None:
            with Guarded("read what the server serves"):
                exchange.answered(question, *answer)
    with Guarded("limit the time of a call"):
        patience.begin(wire)
    edit = None
    with Guarded("upgrade a request"):
        edit = exchange.plan()
        edit = edit if edit.changes else None
    try:
        response, body = yield from _send(exchange, wire, edit)
        if exchange.rewrites_whole:
            try:
                read = yield partial(wire.read, response)
            except Exception as error:
                exchange.finish(error)
                return wire.broken(response, error)
            body = exchange.whole(read)
    except BaseException as error:
        exchange.finish(error)
        raise
    if body is not None:
        return wire.replace(response, body)
    with Guarded("watch a reply"):
        return wire.watch(response)
    return response


def _send(exchange: Exchange, wire: Wire, edit: Edit | None) -> Steps:
    """The response, and its body where that had to be read."""
    response, tries = None, 0
    while response is None:
        tries += 1
        try:
            response = yield partial(wire.send, edit)
        except Exception as error:
            if edit is not None and is_ours(error, "upgrade a request"):
                edit = None
                continue
            seconds = None
            with Guarded("see whether a call is tried again"):
                seconds = patience.before_again(wire, error, tries)
            if seconds is None:
                raise
            exchange.again(None, error)
            yield partial(wire.wait, seconds)
    _begin(exchange, wire, response)
    if not exchange.edit.added or not 400 <= (exchange.http_status or 0) < 500:
        return response, None
    body = yield partial(wire.read, response)
    if not exchange.names_an_added_field(body):
        return response, body
    # Perhaps this server does not know the fields: once more without them, and if that helps, never again with them.
    plain = None
    with Guarded("send a request once more"):
        plain = exchange.plan(add_fields=False)
    if plain is None:
        return response, body
    response = yield partial(wire.send, plain if plain.changes else None)
    _begin(exchange, wire, response)
    if (exchange.http_status or 0) < 400:
        servers.remember(plain.url, servers.describe({}))
    return response, None


def _begin(exchange: Exchange, wire: Wire, response: Any) -> None:
    with Guarded("read the head of a reply"):
        exchange.begin(*wire.head(response))


class Course:
    """A conversation under way: perform `step`, hand in what came of it, until it is `over`."""

    def __init__(self, exchange: Exchange, wire: Wire) -> None:
        self.exchange, self.wire = exchange, wire
        self._steps = converse(exchange, wire)
        self.step: Any = next(self._steps)
        self.response: Any = None

    def over(self, result: Any, error: BaseException | None) -> bool:
        """True when `response` is what the agent gets. Raises what the agent is to get instead."""
        try:
            self.step = self._steps.send(result) if error is None else self._steps.throw(error)
        except StopIteration as end:
            self.response = end.value
            return True
        return False


def drive(course: Course) -> Any:
    """Perform the steps with a blocking transport, those that are left; returns the response."""
    while True:
        inside.set(course.exchange)
        result = error = None
        try:
            result = course.step()
        except BaseException as caught:
            error = caught
        finally:
            inside.set(None)  # and no token that would have to be reset in the context it came from
        try:
            if course.over(result, error):
                return course.response
        finally:
            del error  # with it, this frame and the error's traceback would keep each other alive


async def drive_async(course: Course) -> Any:
    """Perform the steps with a transport whose functions are coroutines."""
    while True:
        inside.set(course.exchange)
        result = error = None
        try:
            result = await course.step()
        except BaseException as caught:
            error = caught
        finally:
            inside.set(None)
        try:
            if course.over(result, error):
                return course.response
        finally:
            del error
