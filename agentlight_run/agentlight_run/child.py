"""Run one program in the foreground as if there were no parent: same terminal, signals and exit status."""

from __future__ import annotations

import os
import sys
import time

from agentlight_run.processes import descendants
from agentlight_store.errors import AgentlightError

TYPE_CHECKING = False  # `typing` is loaded while the agent starts, not before
if TYPE_CHECKING:
    import signal
    from types import TracebackType
    from typing import Any
else:
    import _signal as signal  # `signal` wraps it in enums, whose import takes longer than all the rest of our start

FORWARDED: set[int] = {
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
}  # fmt: skip
ENDING: set[int] = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
GRACE = 5.0  # seconds between TERM and KILL
TIMED_OUT = 124  # the exit status of timeout(1)


class CannotStart(AgentlightError):
    """The program was not found (127) or is not executable (126), as a shell would say."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child:
    """A started program. Until the `with` block ends, signals to us are ours to pass on, not to die of."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        # A parent that ignores SIGCHLD would leave us no exit status to pass on.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
        self.interrupted = False  # somebody asked the agent to end
        try:
            self.pid = _spawn(command, environment, self._mask)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status as a shell counts it: 128+n after signal n, 124 after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        timed_out = False
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            received = _next_signal(FORWARDED | {signal.SIGCHLD}, left)
            if received is None:  # the deadline: TERM, and when that does not help KILL
                _send_to_tree(self.pid, signal.SIGKILL if timed_out else signal.SIGTERM)
                deadline = None if timed_out else time.monotonic() + GRACE
                timed_out = True
            elif received[0] != signal.SIGCHLD:
                self._pass_on(*received)
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return TIMED_OUT if timed_out else code if code >= 0 else 128 - code

    def _pass_on(self, number: int, from_terminal: bool) -> None:
        self.interrupted |= number in ENDING
        if not from_terminal:  # the terminal has sent it to the whole process group, the child included
            os.kill(self.pid, number)


def _spawn(command: list[str], environment: dict[str, str], mask: Any) -> int:
    # posix_spawn and not subprocess, whose import costs more than all the rest of our start.
    ignored_by_python = [signal.SIGPIPE, signal.SIGXFSZ]  # an interpreter sets them so; the agent finds the default
    try:
        return os.posix_spawnp(command[0], command, environment, setsigmask=mask, setsigdef=ignored_by_python)
    except OSError as error:
        raise cannot_start(command[0], error) from None


def check_program(program: str) -> None:
    """Raises CannotStart: before a model server or a hundred rollouts are started for nothing."""
    import shutil

    if shutil.which(program) is None:
        there = os.sep in program and os.path.exists(program)
        raise cannot_start(program, PermissionError() if there else FileNotFoundError())


def cannot_start(program: str, error: OSError) -> CannotStart:
    """The one line that says why; a shell's exit status."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        if os.sep in program and os.path.isfile(program):
            return CannotStart(f"cannot run {program!r}: the interpreter in its first line does not exist", 126)
        return CannotStart(f"no such program: {program!r} (is it on PATH, and executable?)", 127)
    if isinstance(error, PermissionError):
        what = "it is a folder" if os.path.isdir(program) else "it is not executable"
        hint = f"; `python {program}`?" if program.endswith(".py") else ""
        return CannotStart(f"cannot run {program!r}: {what}{hint}", 126)
    return CannotStart(f"cannot run {program!r}: {error.strerror}", 126)


def _next_signal(signals: set[int], timeout: float | None) -> tuple[int, bool] | None:
    """The next of the blocked signals and whether the terminal sent it; None when time runs out."""
    if sys.platform == "linux":
        while True:
            info = signal.sigtimedwait(signals, 3600.0 if timeout is None else timeout)
            if info is not None or timeout is not None:
                return None if info is None else (info.si_signo, info.si_code > 0)  # > 0: from the kernel
    deadline = None if timeout is None else time.monotonic() + timeout
    while not signals & signal.sigpending():
        if deadline is not None and time.monotonic() >= deadline:
            return None
        time.sleep(0.02)
    number = signal.sigwait(signals & signal.sigpending())
    return number, number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _send_to_tree(pid: int, number: int) -> None:
    for process in [*descendants(pid), pid]:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue
