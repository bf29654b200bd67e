"""--max-step-timeout: a call waits no longer for its next bytes; --retry-strategy: and is made once more, later.

Only where nobody else tries again: neither the SDK nor the library below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlight_instrumentation import settings

if TYPE_CHECKING:
    from agentlight_instrumentation.flow import Wire

TRIES = 3  # in all
FIRST_WAIT = 0.5  # seconds; twice as long before each further try
SDK_TRIES = "x-stainless-retry-count"  # a header of SDKs that try again themselves


def begin(wire: Wire) -> None:
    """Shorten the transport's own waiting, where the option is set."""
    seconds = settings.get(settings.STEP_TIMEOUT)
    if seconds is not None:
        wire.limit(float(seconds))


def before_again(wire: Wire, error: Exception, tries: int) -> float | None:
    """Seconds to wait before the call is made once more; None: it is not."""
    if settings.get(settings.RETRY_STRATEGY) is None or tries >= TRIES or not is_timeout(error):
        return None
    return None if wire.tries_again else FIRST_WAIT * 2 ** (tries - 1)


def is_timeout(error: Exception) -> bool:
    return "timeout" in type(error).__name__.lower()


def shorter(given: Any, limit: float) -> float:
    """The agent's own limit where it is a number below ours."""
    return min(given, limit) if isinstance(given, (int, float)) and given > 0 else limit
