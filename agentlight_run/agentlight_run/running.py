"""One rollout in the background: a process group of its own, its output in a log, and an end within its time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from agentlight_run.child import GRACE, TIMED_OUT, cannot_start
from agentlight_run.tasks import Task


class Running:
    """A started rollout. `poll` it until it says that it has ended; then `status` and `exit_code` are known."""

    def __init__(
        self, task: Task, rollout_id: str, environment: dict[str, str], report: str, log: Path, timeout: float | None
    ) -> None:
        self.task = task
        self.rollout_id = rollout_id
        self.report = report
        self.log = log
        self.exit_code = 0
        self._stopped_as: str | None = None  # "timeout" or "interrupted"
        self._kill_at: float | None = None
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._process = self._start(environment)

    def _start(self, environment: dict[str, str]) -> subprocess.Popen[bytes] | None:
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(
                self.task.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,  # a group to end as a whole, and no Ctrl-C of the terminal's
            )
        except OSError as error:  # the command names another program for each row
            failure = cannot_start(self.task.command[0], error)
            self.exit_code = failure.exit_code
            os.write(descriptor, f"agentlight-run: {failure}\n".encode())
            return None
        finally:
            os.close(descriptor)

    def poll(self) -> bool:
        """True once it has ended; ends it when its time is up."""
        if self._process is None:
            return True
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self.stop("timeout")
        code = self._process.poll()
        if self._kill_at is not None and now >= self._kill_at:
            self.kill()
        elif code is not None and self._kill_at is not None and self._group_lives():
            return False  # it has ended on TERM, a process that it started has not yet
        if code is None:
            return False
        self.exit_code = TIMED_OUT if self._stopped_as == "timeout" else code if code >= 0 else 128 - code
        return True

    @property
    def status(self) -> str:
        return self._stopped_as or ("ok" if self.exit_code == 0 else "failed")

    def stop(self, status: str) -> None:
        """Ask the whole group to end, and kill it if it has not within 5 seconds; the first reason stays."""
        self._deadline = None
        if self._stopped_as is None:
            self._stopped_as = status
            self._kill_at = time.monotonic() + GRACE
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def last_words(self) -> str:
        """The last line of its output."""
        with open(self.log, "rb") as file:
            file.seek(max(0, os.path.getsize(self.log) - 4096))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "no output")

    def _group_lives(self) -> bool:
        return self._signal(0)

    def _signal(self, number: int) -> bool:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
                return True
            except (ProcessLookupError, PermissionError):
                pass
        return False
