"""One HTTP exchange with a language model, from the request to the one span that records it; no HTTP library here."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from agentlight_instrumentation import context, servers
from agentlight_instrumentation.fallbacks import fail_safe
from agentlight_instrumentation.framing import Framing, elements, framing, with_payload
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.payload import UNREADABLE, without
from agentlight_instrumentation.record import span_of
from agentlight_instrumentation.routing import Edit, policy_for, route
from agentlight_instrumentation.sampled import EVENT, Generation, from_event, split
from agentlight_instrumentation.servers import FIELD
from agentlight_instrumentation.sink import record

KEPT = 64 * 1024  # bytes of a reply that are recorded as they came when it cannot be understood


@fail_safe
class Exchange:
    """Watches the bytes of one exchange. `feed` them as they pass, then `finish` once; finishing again is nothing."""

    def __init__(self, name: str, dialect: Any, url: str, suffix: str, body: bytes, parsed: dict[str, Any]) -> None:
        self.name, self.dialect = name, dialect
        self.url, self.suffix, self.body, self.parsed = url, suffix, body, parsed
        self.rollout_id = context.current_rollout()
        self.role = context.current_role()
        self.trace = context.current_trace()
        self.started_at = time.time()
        self.edit = Edit(url=url)
        self._routed: Edit | None = None
        self.http_status: int | None = None
        self.attempts = 0  # by a library that tries again itself
        self.sampled: list[Generation] = []
        self.broken: str | None = None  # why the reply could not be read
        self.untouched: str | None = None  # why nothing could be changed of the request
        self._reader: Any = None
        self._framing: Framing | None = None
        self._body: list[bytes] = []
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._encoding = ""
        self._decoder: Any = None
        self._finished = False
        self._in_pieces = False
        self._is_rewritten = False  # what is fed now is what `whole` returned

    # -- the request ---------------------------------------------------------------------------------------

    def plan(self, *, add_fields: bool = True) -> Edit:
        """What is to be changed of the request: where it goes, and which fields are added."""
        edit = self._route()
        info = servers.find(edit.url)
        if add_fields and self.dialect.SPOKEN_BY_VLLM and info is not None and info["vllm"]:
            fields = {FIELD: True} if info.get("tokens") else self.dialect.additions(self.parsed)
            if nulls := [name for name in fields if name in self.parsed]:
                edit = replace(edit, body=without(edit.body or edit.original, nulls))
            edit = edit.adding(fields)
        self.edit = edit
        return edit

    def _route(self) -> Edit:
        """A policy server is vLLM: a call in a dialect that it does not speak stays where the agent sends it."""
        if self._routed is None:
            spoken, policy = self.dialect.SPOKEN_BY_VLLM, policy_for(self.role, self.rollout_id)
            stays = Edit(url=self.url, original=self.body)
            self._routed = route(self.url, self.suffix, self.body, self.parsed, policy) if spoken else stays
        return self._routed

    @property
    def asks_server(self) -> Edit | None:
        """The GET that tells what the server is; None when that is known already."""
        edit = self._route()
        if not self.dialect.SPOKEN_BY_VLLM or not servers.worth_asking(edit.url, self._model(edit)):
            return None
        url = edit.url[: urlsplit(edit.url)._replace(query="").geturl().rindex(self.suffix)] + "/models"
        return replace(edit, url=url, body=None)

    def answered(self, question: Edit, status: int, body: bytes) -> None:
        """The server has said what it is."""
        servers.answered(question.url, self._model(question), status, body)

    def _model(self, edit: Edit) -> str:
        return edit.model or str(self.parsed.get("model") or "")

    def names_an_added_field(self, error_body: bytes) -> bool:
        names = {*self.edit.added, *(["logprobs"] if "include" in self.edit.added else [])}  # what it includes
        return any(name.encode() in error_body for name in names)

    # -- the reply -----------------------------------------------------------------------------------------

    def begin(self, http_status: int, content_type: str, content_encoding: str) -> None:
        """The reply's head has arrived."""
        self.http_status = http_status
        self._encoding = content_encoding.strip().lower()
        self._decoder = None
        if self._encoding and self.edit.added:
            from agentlight_instrumentation.encodings import decoder

            self._decoder = decoder(self._encoding)
        self._reader = self._new_reader()
        self._framing = framing(content_type)

    def _new_reader(self) -> Any:
        return self.dialect.Reader(frozenset(self.edit.added), self.parsed)

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
        return self._framing is not None

    @property
    def comes_in_pieces(self) -> bool:
        """Then a choice without a finish reason is one that was not received to its end."""
        return self.is_stream or self._in_pieces

    @property
    def is_redirect(self) -> bool:
        return self.http_status is not None and 300 <= self.http_status < 400

    def feed(self, chunk: bytes) -> bytes:
        """The next bytes of the reply; returns what the agent gets to see of what has passed so far."""
        if self._is_rewritten:
            return chunk
        if self._decoder is not None:
            chunk = self._decoded(chunk)
        if self._finished:
            return self._taken_rest() + chunk
        if self._framing is None or not self._is_readable:
            self._body.append(chunk)
            return chunk
        shown, done = [], False
        for frame in self._framing.feed(chunk):
            payload = self._framing.payload(frame)
            shown.append(self._pass(frame, payload))
            done = done or payload == b"[DONE]" or self._reader.done
        if done:
            self.finish()  # SDKs leave here: commit before the agent goes on
        return b"".join(shown) if self.edit.added else chunk

    def _decoded(self, chunk: bytes) -> bytes:
        with Guarded("decompress a reply") as guard:
            try:
                return self._decoder(chunk)
            except (zlib.error, ValueError) as error:
                self.broken = f"the reply could not be decompressed: {error}"
        if guard.failed:
            self.broken = "the reply could not be decompressed"
        return chunk

    def _pass(self, frame: bytes, payload: bytes | None) -> bytes:
        """Read one frame of a stream; returns what the agent gets to see of it."""
        if payload is None or payload == b"[DONE]":
            return frame
        self._keep(payload)
        with Guarded("read a streamed reply") as guard:
            try:
                if FIELD in self.edit.added and payload.startswith(EVENT):
                    self.sampled = from_event(payload)
                    return b""
                seen = self._reader.add(payload)
                return b"" if seen is None else with_payload(frame, payload, seen)
            except UNREADABLE as error:
                self.broken = f"the reply could not be read: {error}"
        if guard.failed:
            self.broken = "the reply could not be read"
        return frame

    def _keep(self, payload: bytes) -> None:
        if self._kept_bytes < KEPT:
            self._kept.append(payload)
            self._kept_bytes += len(payload)

    @property
    def kept(self) -> bytes:
        """The reply's payloads as they came, a line each, as far as they are kept."""
        return b"\n".join(self._kept)[:KEPT]

    def whole(self, body: bytes) -> bytes:
        """A reply that arrived in one piece; returns it as the agent gets to see it, and records the call."""
        if self._decoder is not None:
            body = self._decoded(body)
        body = self._read(body)
        self.finish()
        self._is_rewritten = True
        return body

    def _read(self, body: bytes) -> bytes:
        """Read a whole reply; returns it as the agent gets to see it."""
        shown: bytes | None = None
        with Guarded("read a reply") as guard:
            try:
                if FIELD in self.edit.added:
                    body, self.sampled = split(body)
                parts = elements(body)
                self._in_pieces = parts != [body]
                for part in parts or [body]:
                    self._keep(part)
                for part in parts:
                    shown = self._reader.add(part)
            except UNREADABLE as error:
                self.broken = self.broken or f"the reply could not be read: {error}"
        if guard.failed:
            self.broken = self.broken or "the reply could not be read"
        return body if shown is None or self._in_pieces else shown

    def held_back(self) -> bytes:
        """At the end of a stream: bytes after the last whole frame, which the agent has not got yet."""
        rest = self._taken_rest()
        if self._finished or self._framing is None or not rest:
            return rest
        return self._pass(rest, self._framing.payload(rest))

    def _taken_rest(self) -> bytes:
        if self._framing is None or not self.edit.added:
            return b""
        rest, self._framing.rest = self._framing.rest, b""
        return rest

    def finish(self, error: BaseException | None = None, *, left_early: bool = False) -> None:
        """Record the call, with what has arrived; the first call of this method counts."""
        if self._finished:
            return
        self._finished = True
        if self.is_redirect:
            return  # the request that follows it is the call
        with Guarded("record a call"):
            record(self.rollout_id, span_of(self, self._read_rest(), error, left_early))

    def again(self, http_status: int | None, error: BaseException | None) -> None:
        """The library below tries once more: that attempt was an exchange of its own, and so is the next."""
        self.http_status = http_status
        self.finish(error)
        self._finished, self._reader, self.http_status, self.started_at = False, None, None, time.time()

    def _read_rest(self) -> Any:
        """The reader, fed with what was only passed on so far."""
        body, self._body = b"".join(self._body), []
        reader = self._reader = self._reader or self._new_reader()
        with Guarded("read a reply") as guard:
            try:
                if body and self._decoder is None:
                    from agentlight_instrumentation.encodings import decode

                    body = decode(body, self._encoding)
            except ValueError as error:
                self.broken = f"the reply could not be read: {error}"
                self._keep(body)
                return reader
        if guard.failed:
            self.broken = self.broken or "the reply could not be read"
        if self._framing is not None:
            frames = [*self._framing.feed(body), self._framing.rest]
            for frame in frames:
                self._pass(frame, self._framing.payload(frame))
        elif body:
            self._read(body)
        return reader
