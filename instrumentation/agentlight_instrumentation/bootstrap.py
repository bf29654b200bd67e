"""Start capture in a Python process: install the import hook, and nothing else; imports no library to do so."""

from __future__ import annotations

import sys

from agentlight_instrumentation import settings
from agentlight_instrumentation.imports import Hook, patch
from agentlight_instrumentation.report import report
from agentlight_instrumentation.transports import TRANSPORTS


def start() -> None:
    """Idempotent; libraries that are imported already are patched at once."""
    if any(isinstance(finder, Hook) for finder in sys.meta_path):
        return
    target = settings.get(settings.REWARD)
    module, _, qualname = (target or "").rpartition(":")
    function = (module, qualname) if target else None
    hook = Hook(TRANSPORTS, function)
    sys.meta_path.insert(0, hook)
    for name, transport in TRANSPORTS.items():
        if name in sys.modules:
            patch(name, transport, sys.modules[name])
    if function is not None:
        from agentlight_instrumentation.script import claim

        claim(*function)
    report("started", python=sys.executable)
