"""What is said at the end: the closing line, and a warning for everything that was not captured, with its cause."""

from __future__ import annotations

import os
from collections import Counter

from agentlight_instrumentation.transports import TRANSPORTS
from agentlight_run.events import Events
from agentlight_run.sampling import why_drop
from agentlight_store import headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentlight_store import Rollout
    from agentlight_store.environment import Environment

ISOLATING = {"I": "-I", "E": "-E", "S": "-S"}  # Python's flags that keep our sitecustomize from running
TIMEOUTS_SAID = 0.05  # share of the calls above which they are said
WORDS = {"failed": "failed", "timeout": "timed out", "interrupted": "interrupted", "running": "not recorded to the end"}


class Totals:
    """Of the rollouts of one `agentlight-run`."""

    def __init__(self) -> None:
        self.rollouts = self.calls = self.tokens = 0
        self.rewards: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.not_trainable: Counter[str] = Counter()  # reasons, of calls that the agent got a reply to
        self.dropped: Counter[str] = Counter()  # reasons, of rollouts that were not to be recorded
        self.timed_out = 0  # calls
        self.silent = 0  # rollouts that ended well without one captured call
        self.events = Events()

    def take(self, store: Environment, rollout_id: str, status: str, events: Events, options: Any) -> None:
        """Add what one process left: its own rollout, or those that it began itself. Raises StoreError.

        Without calls and scores of its own, a process that began rollouts is none. What is not sampled is dropped.
        """
        self.events.add(events)
        own_is_empty = headers.is_empty(store, rollout_id)
        if own_is_empty and events.rollouts:
            headers.forget(store, rollout_id)
        for one in [*([] if own_is_empty and events.rollouts else [rollout_id]), *events.rollouts]:
            rollout = None
            if not (own_is_empty and one == rollout_id):
                from agentlight_store import Store

                rollout = Store(store).rollout(one)
            reward = None if rollout is None else rollout.reward
            why = why_drop(options, one, reward, one in events.over_limit)
            if why is not None:
                headers.drop(store, one, why)
                self.dropped[why] += 1
            else:
                self.add(status if rollout is None else rollout.status, rollout)

    def add(self, status: str, rollout: Rollout | None) -> None:
        """`rollout` None is one without calls and scores."""
        self.rollouts += 1
        self.statuses[status] += 1
        self.silent += status == "ok" and (rollout is None or not rollout.calls)
        if rollout is None:
            return
        self.calls += rollout.calls
        self.tokens += rollout.prompt_tokens + rollout.completion_tokens
        if rollout.reward is not None:
            self.rewards.append(rollout.reward)
        for span in rollout.spans:
            self.timed_out += span.timed_out
            if span.status == "ok" and span.reason is not None:
                self.not_trainable[span.reason] += 1

    @property
    def complete(self) -> bool:
        """What --strict asks for."""
        return not (self.silent or self.events.lost or self.events.not_started)


def closing_line(totals: Totals, store: str) -> str:
    """`store` is the path as the user gave it."""
    ends = ", ".join(f"{totals.statuses[status]} {word}" for status, word in WORDS.items() if totals.statuses[status])
    rollouts = _count(totals.rollouts, "rollout") + (f" ({ends})" if ends and totals.rollouts > 1 else "")
    counts = f"{_count(totals.calls, 'call')}, {_count(totals.tokens, 'token')}, {rollouts}"
    dropped = "".join(f", {_count(number, 'rollout')} dropped ({why})" for why, number in totals.dropped.items())
    return f"agentlight: {counts}, {_reward(totals)}{dropped} -> {store}"


def warnings(totals: Totals, command: list[str], functions: list[tuple[str, str]]) -> list[str]:
    """One line a fault, without the prefix; empty when all was captured. `functions` are those that flags name."""
    events = totals.events
    lines = [f"capture did not start in {_remedy(python, why)}" for python, why in events.not_started.items()]
    if not totals.calls and not lines and not totals.dropped:
        lines.append(f"no LLM call was captured: {_why_no_call(events, command)}")
    if events.lost:
        lines += [
            f"not everything was recorded: {reason}" + (f" ({times} times)" if times > 1 else "")
            for reason, times in events.lost.most_common(3)
        ]
        if len(events.lost) > 3:
            lines.append(f"not everything was recorded: {len(events.lost) - 3} other reasons")
    for reason, calls in totals.not_trainable.most_common(2):
        lines.append(f"{calls:,} of {_count(totals.calls, 'call')} cannot be trained on: {reason}")
    if totals.timed_out > TIMEOUTS_SAID * totals.calls:
        lines.append(f"{totals.timed_out:,} of {_count(totals.calls, 'call')} timed out")
    for flag, target in functions:
        missing = events.missing.get((flag, target))
        if missing is None and (flag, target) not in events.observed:
            missing = f"no module {target.partition(':')[0]} was imported"
        elif missing is None and flag == "--reward" and not events.reward_called:
            missing = f"{target} was never called"
        if missing is not None:
            lines.append(f"no reward was recorded: {missing}" if flag == "--reward" else f"{flag} {target}: {missing}")
    return lines


def notes(totals: Totals) -> list[str]:
    """What --profile and --async-data-upload ask to be told, a line each."""
    events, lines = totals.events, []
    if events.queued is not None:
        lines.append(f"at most {_count(events.queued, 'call')} waited to be committed (1,000 may)")
    for part, (times, spent) in sorted(events.profile.items(), key=lambda one: -one[1][1]):
        lines.append(f"profile: {part:22} {times:9,} times {spent / 1e6:9,.1f} ms {spent / times / 1e3:10,.1f} us each")
    return lines


def _why_no_call(events: Events, command: list[str]) -> str:
    if events.patched:
        libraries = " and ".join(sorted(events.patched))
        return f"the agent imported {libraries}, but sent no LLM request that agentlight knows through it"
    if events.started:
        return f"the agent imported no HTTP library that agentlight knows ({', '.join(TRANSPORTS)})"
    flags = isolating_flags(command)
    if flags:
        return f"Python was started with {flags}, which switches capture off"
    return (
        f"no Python process of {os.path.basename(command[0])!r} started capture (is it a Python program? "
        "Python's -I, -E and -S, and a changed PYTHONPATH, switch capture off)"
    )


def isolating_flags(command: list[str]) -> str:
    """Those of -I, -E, -S that the command, or the first line of the script that it runs, gives to Python."""
    words = command
    if "python" not in os.path.basename(command[0]):
        import shutil

        try:
            with open(shutil.which(command[0]) or command[0], "rb") as file:
                words = file.readline(256).decode(errors="replace").removeprefix("#!").split()
        except OSError:
            return ""
    while words and "python" not in os.path.basename(words[0]):  # `#!/usr/bin/env -S python -I`
        words = words[1:]
    found = []
    arguments = iter(words[1:])
    for word in arguments:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            break
        for letter in word[1:]:
            if letter in "cm":  # what follows is the program and its own arguments
                return " ".join(found)
            if letter in "WX":  # the rest of the word, or the next one, is this flag's value
                if word.endswith(letter):
                    next(arguments, None)
                break
            if letter in ISOLATING:
                found.append(ISOLATING[letter])
    return " ".join(found)


def _remedy(python: str, why: str) -> str:
    if why.startswith("ModuleNotFoundError: No module named 'agentlight"):
        return f"{python}, which has no agentlight: {python} -m pip install agentlight"
    if why.startswith(("ImportError", "ModuleNotFoundError")):
        return f"{python} ({why}): {python} -m pip install --force-reinstall agentlight"
    return f"{python}: {why}"


def _reward(totals: Totals) -> str:
    if not totals.rewards:
        return "unscored"
    mean = f"{sum(totals.rewards) / len(totals.rewards):.3g}"
    if totals.rollouts == 1:
        return f"reward {mean}"
    unscored = totals.rollouts - len(totals.rewards)
    return f"mean reward {mean}" + (f" ({unscored} unscored)" if unscored else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
