"""--async-data-upload: spans wait in a bounded queue, and a thread that lives while there are any commits them."""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from agentlight_instrumentation import sink
from agentlight_instrumentation.guard import Guarded
from agentlight_instrumentation.report import report

if TYPE_CHECKING:
    from agentlight_store.span import Span

LIMIT = 1000  # spans that wait; with more, the call that would add one commits it itself
LINGER = 0.02  # seconds without work after which the thread ends; so much later a process may end


class Writer:
    """The thread is no daemon, so that a process which ends in order waits for it. A SIGKILL loses what waits."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._waiting: SimpleQueue[tuple[str, Span]] = SimpleQueue()  # a stream finalised amid `put` may put as well
        self._is_running = False
        self._most = 0

    def put(self, rollout_id: str, span: Span) -> None:
        """Raises as `sink.store` does, where it commits itself."""
        if self._pid != os.getpid():
            self.__init__()  # of a fork: what waits is the parent's
        waiting = self._waiting.qsize()
        self._most = max(self._most, min(waiting + 1, LIMIT))
        if waiting >= LIMIT:
            sink.store().append(rollout_id, span)
            return
        self._waiting.put((rollout_id, span))
        if not self._is_running:
            self._is_running = True
            try:
                threading.Thread(target=self._drain, name="agentlight-writer").start()
            except RuntimeError:  # the interpreter is about to end
                self._drain()

    def _drain(self) -> None:
        reported = self._most
        while True:
            try:
                rollout_id, span = self._waiting.get(timeout=LINGER)
            except Empty:
                self._is_running = False
                if self._waiting.empty():  # else it was put before we said that we end, and starts no other thread
                    break
                continue
            with Guarded("record a call"):
                sink.store().append(rollout_id, span)
        if self._most >= reported:
            report("queue", most=self._most)


_writer = Writer()


def put(rollout_id: str, span: Span) -> None:
    _writer.put(rollout_id, span)
