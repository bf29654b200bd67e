"""The door for who starts with `opentelemetry-instrument` already: capture beside traces, into $AGENTLIGHT_STORE."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from agentlight_instrumentation import bootstrap, settings
from agentlight_instrumentation.imports import Hook


class AgentlightInstrumentor(BaseInstrumentor):
    """Does nothing unless AGENTLIGHT_STORE names a store: being installed is no consent to be recorded."""

    def instrumentation_dependencies(self) -> Collection[str]:
        return ()

    def _instrument(self, **_: Any) -> None:
        if path := settings.get(settings.STORE):
            os.environ[settings.STORE] = os.path.abspath(path)
            bootstrap.start()

    def _uninstrument(self, **_: Any) -> None:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Hook)]
