"""One HTTP exchange with a language model, from the request to the one span that records it; no HTTP library here."""

from __future__ import annotations

import importlib
import os
import time
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentlight_instrumentation import context, dialects, servers
from agentlight_instrumentation.eventstream import Events, data_of, with_data
from agentlight_instrumentation.guard import Guarded, lost
from agentlight_instrumentation.routing import Edit, route
from agentlight_instrumentation.sink import store
from agentlight_instrumentation.verdict import why_not_trainable
from agentlight_store.span import Span


def recognise(method: str, url: str, body: Any) -> Exchange | None:
    """The exchange for a request that is an LLM call, else None. Cheap for all other requests.

    A `body` that is neither bytes nor text could only be read once: it is left to the agent, and said to be lost.
    """
    if method != "POST" or not body or context.inside.get() is not None:
        return None
    found = dialects.find(urlsplit(url).path)
    if found is None:
        return None
    if isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes):
        if not isinstance(body, (bytearray, memoryview)):
            lost(f"the body of a request to {found[1]} is a {type(body).__name__}, which can be read only once")
            return None
        body = bytes(body)
    dialect = importlib.import_module(f"agentlight_instrumentation.dialects.{found[0]}")
    try:
        parsed = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None  # not JSON: whatever it is, it is no call of this dialect
    if not isinstance(parsed, dict) or not dialect.is_call(parsed):
        return None
    return Exchange(found[0], dialect, url, found[1], body, parsed)


class Exchange:
    """Watches the bytes of one exchange. `feed` them as they pass, then `finish` once; finishing again is nothing."""

    def __init__(self, name: str, dialect: Any, url: str, suffix: str, body: bytes, parsed: dict[str, Any]) -> None:
        self.name, self.dialect = name, dialect
        self.url, self.suffix, self.body, self.parsed = url, suffix, body, parsed
        self.rollout_id = context.current_rollout()
        self.role = context.role.get()
        self.started_at = time.time()
        self.edit = Edit(url=url)
        self.http_status: int | None = None
        self._reader: Any = None
        self._events: Events | None = None
        self._body: list[bytes] = []
        self._encoding = ""
        self._decoder: Any = None
        self.attempts = 0  # by a library that tries again itself
        self._finished = False
        self._broken: str | None = None

    # -- the request ---------------------------------------------------------------------------------------

    def plan(self, *, add_fields: bool = True) -> Edit:
        """What is to be changed of the request: where it goes, and which fields are added."""
        edit = route(self.url, self.suffix, self.body, self.parsed)
        info = servers.find(edit.url)
        if add_fields and info is not None and info["vllm"]:
            edit = edit.adding(self.dialect.additions(self.parsed))
        self.edit = edit
        return edit

    @property
    def asks_server(self) -> Edit | None:
        """The GET that tells what the server is; None when that is known already."""
        edit = route(self.url, self.suffix, self.body, self.parsed)
        if not servers.worth_asking(edit.url, self._model(edit)):
            return None
        url = edit.url[: urlsplit(edit.url)._replace(query="").geturl().rindex(self.suffix)] + "/models"
        return replace(edit, url=url, body=None)

    def answered(self, question: Edit, status: int, body: bytes) -> None:
        """The server has said what it is."""
        servers.answered(question.url, self._model(question), status, body)

    def _model(self, edit: Edit) -> str:
        return edit.model or str(self.parsed.get("model") or "")

    def names_an_added_field(self, error_body: bytes) -> bool:
        return any(name.encode() in error_body for name in self.edit.added)

    # -- the reply -----------------------------------------------------------------------------------------

    def begin(self, http_status: int, content_type: str, content_encoding: str) -> None:
        """The reply's head has arrived."""
        self.http_status = http_status
        self._encoding = content_encoding.strip().lower()
        self._decoder = None
        if self._encoding and self.edit.added:
            from agentlight_instrumentation.encodings import decoder

            self._decoder = decoder(self._encoding)
        self._reader = self.dialect.Reader(frozenset(self.edit.added))
        if content_type.startswith("text/event-stream"):
            self._events = Events()

    def arrives_as(self, content_encoding: str) -> None:
        """What will be fed is compressed after all: the agent reads a reply as it came over the wire."""
        self._encoding = content_encoding.strip().lower()

    @property
    def decodes(self) -> bool:
        """The server compressed although it was asked not to: what the agent gets is decompressed."""
        return self._decoder is not None

    @property
    def rewrites_whole(self) -> bool:
        """What was added is to be taken out of a reply that comes in one piece."""
        return bool(self.edit.added) and not self.is_stream and self.http_status == 200 and self._is_readable

    @property
    def _is_readable(self) -> bool:
        return not self._encoding or self._decoder is not None

    @property
    def is_stream(self) -> bool:
        return self._events is not None

    @property
    def is_redirect(self) -> bool:
        return self.http_status is not None and 300 <= self.http_status < 400

    def feed(self, chunk: bytes) -> bytes:
        """The next bytes of the reply; returns what the agent gets to see of what has passed so far."""
        if self._finished:
            return chunk
        if self._events is None or not self._is_readable:
            self._body.append(chunk)
            return chunk
        if self._decoder is not None:
            chunk = self._decoder(chunk)
        shown, done = [], False
        for event in self._events.feed(chunk):
            shown.append(self._pass_event(event))
            done = done or data_of(event) == b"[DONE]"
        if done:
            self.finish()  # SDKs leave here: commit before the agent goes on
        return b"".join(shown) if self.edit.added else chunk

    def _pass_event(self, event: bytes) -> bytes:
        """Read one event of a stream; returns what the agent gets to see of it."""
        data = data_of(event)
        if data is None or data == b"[DONE]":
            return event
        with Guarded("read a streamed reply") as guard:
            try:
                seen = self._reader.add(data)
                return b"" if seen is None else with_data(event, data, seen)
            except (msgspec.DecodeError, ValueError) as error:
                self._broken = f"the reply could not be read: {error}"
        if guard.failed:
            self._broken = "the reply could not be read"
        return event

    def whole(self, body: bytes) -> bytes:
        """A reply that arrived in one piece; returns it as the agent gets to see it, and records the call."""
        shown: bytes | None = None
        if self._decoder is not None:
            body = self._decoder(body)
        with Guarded("read a reply"):
            try:
                shown = self._reader.add(body)
            except (msgspec.DecodeError, ValueError) as error:
                self._broken = f"the reply could not be read: {error}"
        self.finish()
        return body if shown is None else shown

    def held_back(self) -> bytes:
        """At the end of a stream: bytes after the last whole event, which the agent has not got yet."""
        if self._events is None or not self.edit.added:
            return b""
        rest, self._events.rest = self._events.rest, b""
        return rest if self._finished else self._pass_event(rest)

    def finish(self, error: BaseException | None = None, *, left_early: bool = False) -> None:
        """Record the call, with what has arrived; the first call of this method counts."""
        if self._finished:
            return
        self._finished = True
        if self.is_redirect:
            return  # the request that follows it is the call
        with Guarded("record a call"):
            store().append(self.rollout_id, self._span(error, left_early))

    def again(self, http_status: int | None, error: BaseException | None) -> None:
        """The library below tries once more: that attempt was an exchange of its own, and so is the next."""
        self.http_status = http_status
        self.finish(error)
        self._finished, self._reader, self.http_status, self.started_at = False, None, None, time.time()

    # -- the span ------------------------------------------------------------------------------------------

    def _span(self, error: BaseException | None, left_early: bool) -> Span:
        reader = self._read_body() or self.dialect.Reader()
        asked = self.dialect.read_request(self.parsed)
        model = self.edit.model or asked["model"]
        info = servers.find(self.edit.url)
        served = ((info or {}).get("models") or {}).get(model) or {}
        span = Span(
            role=self.role,
            pid=os.getpid(),
            dialect=self.name,
            server=urlsplit(servers.origin(self.edit.url)).netloc,
            model=model,
            model_root=served.get("root"),
            policy_version=model if served.get("adapter") else None,
            adapter_root=served.get("adapter"),
            messages=asked["messages"],
            tools=asked["tools"],
            prompt_ids=reader.prompt_ids,
            choices=reader.choices(),
            sampling=servers.effective_sampling(asked["sampling"], info, model),
            usage=reader.usage,
            http_status=self.http_status,
            started_at=self.started_at,
            ended_at=time.time(),
        )
        span.status, span.error = self._status(reader, span, error, left_early)
        span.reason = (self._broken if span.status == "ok" else None) or why_not_trainable(span, info)
        span.trainable = span.reason is None
        return span

    def _status(self, reader: Any, span: Span, error: BaseException | None, left_early: bool) -> tuple[str, str | None]:
        if error is not None and (self.http_status is None or self.http_status >= 400):
            return "error", type(error).__name__  # its text may hold a URL with a key in it
        if self.http_status is not None and self.http_status >= 400:
            return "error", reader.error or f"HTTP {self.http_status}"
        if reader.error is not None:
            return "error", reader.error
        unfinished = self.is_stream and any(choice.finish_reason is None for choice in span.choices)
        if error is not None or unfinished or (left_early and not span.choices):
            return "partial", None if error is None else type(error).__name__
        return "ok", None

    def _read_body(self) -> Any:
        """The reader, fed with what was only passed on so far."""
        body, self._body = b"".join(self._body), []
        with Guarded("read a reply") as guard:
            try:
                if body:
                    from agentlight_instrumentation.encodings import decode

                    body = body if self._decoder is not None else decode(body, self._encoding)
                if self._events is not None:
                    for event in [*self._events.feed(body), self._events.rest]:
                        self._pass_event(event)
                elif body:
                    self._reader.add(body)
            except (msgspec.DecodeError, ValueError) as error:
                self._broken = self._broken or f"the reply could not be read: {error}"
        if guard.failed:
            self._broken = self._broken or "the reply could not be read"
        return self._reader
