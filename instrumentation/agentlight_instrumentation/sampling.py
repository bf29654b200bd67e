"""Which rollouts are recorded, and which of them go to the policy; by their ids, so that all processes agree."""

from __future__ import annotations

import time

from agentlight_instrumentation import settings
from agentlight_instrumentation.report import report

MINUTE = 60.0  # seconds

_recent: list[float] = []  # when this process recorded its last spans
_left_out: set[str] = set()  # rollouts over the limit


def arm_of(rollout_id: str, share: float | str | None) -> str | None:
    """ "policy" for a share of all rollouts, "own" for the others; None where all go the same way."""
    if share is None:
        return None
    return "policy" if _position(rollout_id[-8:]) < float(share) else "own"


def is_sampled(rollout_id: str, rate: float) -> bool:
    """True for a share of `rate` of all rollouts."""
    return _position(rollout_id[-16:-8]) < rate


def is_left_out(rollout_id: str) -> bool:
    """To be asked once a call: True for one that is not to be recorded."""
    rate, limit = settings.get(settings.SAMPLING_RATE), settings.get(settings.MAX_SPANS)
    if rate is not None and not is_sampled(rollout_id, float(rate)):
        return True
    return limit is not None and _is_over(rollout_id, int(limit))


def _is_over(rollout_id: str, limit: int) -> bool:
    if rollout_id in _left_out:
        return True
    now = time.monotonic()
    _recent[:] = [moment for moment in _recent if moment > now - MINUTE]
    if len(_recent) < limit:
        _recent.append(now)
        return False
    _left_out.add(rollout_id)
    report("over-limit", id=rollout_id)
    return True


def _position(random_digits: str) -> float:
    """Where eight random hex digits of an id lie between 0 and 1."""
    return int(random_digits, 16) / 2**32
