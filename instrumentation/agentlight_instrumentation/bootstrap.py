"""Start capture in a Python process: install the import hook, and nothing else; imports no library to do so."""

from __future__ import annotations

import sys

from agentlight_instrumentation import settings
from agentlight_instrumentation.frameworks import FRAMEWORKS
from agentlight_instrumentation.imports import Hook, patch
from agentlight_instrumentation.report import report
from agentlight_instrumentation.transports import TRANSPORTS

# What hands work on to a thread or process.
CARRYING = (
    "threading", "concurrent.futures.thread", "concurrent.futures.process", "subprocess", "multiprocessing.process",
)  # fmt: skip


def start(*, carry: bool = False) -> None:
    """Idempotent; libraries that are imported already are patched at once.

    `carry`: there will be rollouts or roles that are parts of the process, to be carried to threads and processes.
    """
    if any(isinstance(finder, Hook) for finder in sys.meta_path):
        return
    functions = settings.functions()
    libraries = {name: f"transports.{file}" for name, file in TRANSPORTS.items()}
    if carry or any(function.kind in ("rollout", "role") for function in functions):
        libraries |= dict.fromkeys(CARRYING, "carriers")
    if settings.get(settings.PROFILE):
        from agentlight_instrumentation import profile

        profile.start()
    hook = Hook(libraries, [*functions, *(settings.Function("framework", *words) for words in FRAMEWORKS)])
    present = hook.take_present()
    sys.meta_path.insert(0, hook)
    for name in present:
        patch(name, libraries[name], sys.modules[name])
    if functions:
        from agentlight_instrumentation.script import claim

        claim(functions)
    report("started", python=sys.executable)
