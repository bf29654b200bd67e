"""Ids of rollouts, from the clock and the OS; an agent's seeded `random` plays no part."""

from __future__ import annotations

import os
import time


def new_rollout_id() -> str:
    """32 hex digits: 48 bits of time in ms, then random bits; so ids sort by the time of their making."""
    return (int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10)).hex()
