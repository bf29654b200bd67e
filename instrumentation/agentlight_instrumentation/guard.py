"""An error of ours never reaches the agent and is never silent: it is counted and reported, once a place."""

from __future__ import annotations

import os

from agentlight_instrumentation import settings
from agentlight_instrumentation.report import report


class Guarded:
    """`with Guarded("record the call"):` swallows our own Exception and reports a loss; `failed` tells."""

    __slots__ = ("doing", "failed")

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.failed = False

    def __enter__(self) -> Guarded:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if error is None or not isinstance(error, Exception):
            return False  # KeyboardInterrupt, SystemExit and CancelledError are the agent's
        self.failed = True
        if os.environ.get(settings.RAISE):
            return False
        lost(f"could not {self.doing}: {type(error).__name__}: {error}")
        return True


def is_ours(error: Exception, doing: str) -> bool:
    """True, and said, for an error that a line of ours has raised, and not a line of the agent's or of a library."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    if os.environ.get(settings.RAISE) or not raised_in.startswith("agentlight_"):
        return False
    lost(f"could not {doing}: {type(error).__name__}: {error}")
    return True


def lost(reason: str) -> None:
    """Tell the launcher that a call, or something of it, was not recorded."""
    try:
        from agentlight_store.redaction import redacted  # the text of an error may name a URL with a key in it

        report("lost", reason=redacted(reason))
    except Exception:
        return  # the last resort has failed too; the agent goes first
