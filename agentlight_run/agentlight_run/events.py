"""What the agents' processes said about capture: the events of report files, counted."""

from __future__ import annotations

import json
import os
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Events:  # no dataclass: with what they import, the launcher would be busy longer than a short agent runs
    """Of one rollout, or of many added up; texts are counted by how often they were said."""

    def __init__(self) -> None:
        self.started = 0  # processes in which capture started
        self.patched: set[str] = set()  # import names of HTTP libraries
        self.lost: Counter[str] = Counter()  # reasons
        self.not_started: dict[str, str] = {}  # interpreter -> why capture did not start in it
        self.reward_called = 0
        self.rollouts: list[str] = []  # ids of those that began with a call of a --rollout function
        self.over_limit: set[str] = set()  # ids of those that had more calls than are to be recorded
        self.profile: dict[str, tuple[int, int]] = {}  # part of capture -> how often, ns in all
        self.queued: int | None = None  # the most spans that waited to be committed, where they wait
        self.observed: set[tuple[str, str]] = set()  # functions that the command line names, as (flag, target)
        self.missing: dict[tuple[str, str], str] = {}  # and why one could not be observed

    def add(self, other: Events) -> None:
        self.started += other.started
        self.patched |= other.patched
        self.lost += other.lost
        self.not_started |= other.not_started
        self.reward_called += other.reward_called
        self.rollouts += other.rollouts
        self.over_limit |= other.over_limit
        for part, (times, spent) in other.profile.items():
            self.add_profile(part, times, spent)
        self.add_queued(other.queued)
        self.observed |= other.observed
        self.missing |= other.missing

    def add_profile(self, part: str, times: int, spent: int) -> None:
        before = self.profile.get(part, (0, 0))
        self.profile[part] = (before[0] + times, before[1] + spent)

    def add_queued(self, most: int | None) -> None:
        if most is not None:
            self.queued = max(most, self.queued or 0)


def take(path: str) -> Events:
    """Read the report and delete it."""
    events = Events()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        os.unlink(path)
    except FileNotFoundError:
        events.lost["the agent deleted the file in which it reports to the launcher"] += 1
        return events
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # of a process that was killed while it wrote
        _count(events, event)
    return events


def _count(events: Events, event: dict[str, Any]) -> None:
    match event.get("event"):
        case "started":
            events.started += 1
        case "patched":
            events.patched.add(event["library"])
        case "lost":
            events.lost[event["reason"]] += 1
        case "no-agentlight":
            events.not_started[event["python"]] = event["detail"]
        case "reward-called":
            events.reward_called += 1
        case "rollout":
            events.rollouts.append(event["id"])
        case "over-limit":
            events.over_limit.add(event["id"])
        case "profile":
            events.add_profile(event["part"], event["times"], event["ns"])
        case "queue":
            events.add_queued(event["most"])
        case "observed":
            events.observed.add((f"--{event['kind']}", event["target"]))
        case "function-missing":
            events.missing[f"--{event['kind']}", event["target"]] = event["detail"]
