"""Many rollouts: each task several times, some at a time; one that fails is recorded and stops no other."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from agentlight_instrumentation.sampling import arm_of
from agentlight_run import events
from agentlight_run.child import check_program
from agentlight_run.cli import named_functions
from agentlight_run.ending import INCOMPLETE, finish
from agentlight_run.environment import agent_environment, create_report
from agentlight_run.policies import Policies
from agentlight_run.progress import Progress, progress
from agentlight_run.running import Running
from agentlight_run.sampling import variables
from agentlight_run.single import policies_of, say
from agentlight_run.summary import Totals, closing_line, notes, warnings
from agentlight_run.tasks import PLACEHOLDER, Task, missing, read_tasks
from agentlight_store import Store, new_rollout_id
from agentlight_store.redaction import redacted

DONE = ("ok", "failed")  # a result; a rollout that timed out or was interrupted is run again by --resume
TICK = 0.02  # seconds between looks at the running rollouts
FAILURES_SHOWN = 3


def run(options: Any) -> int:
    """0 when the rollouts have run, 1 when none of them ended well, 130 after Ctrl-C, 3 where --strict finds fault."""
    tasks = read_tasks(Path(options.tasks), options.command)
    repeated = sum(len(task.lines) - 1 for task in tasks)
    if repeated:
        say(f"{repeated} rows of {options.tasks} repeat an earlier row and are not tasks of their own")
    if not PLACEHOLDER.search(options.command[0]):
        check_program(options.command[0])
    store = Store.open(options.store, create=True)
    samples = options.samples or 1
    done = _done(store) if options.resume else Counter[str]()
    todo = missing(tasks, samples, done)
    if options.resume:
        wanted = len(tasks) * samples
        say(f"{wanted - len(todo)} of {wanted} rollouts are in {options.store} already; {len(todo)} to run")
        if not todo:
            return 0
    with policies_of(options) as policies:
        fanout = Fanout(options, store, policies, len(todo))
        interrupted = fanout.run(todo)
        return _conclude(fanout.totals, options, interrupted, len(todo))


class Fanout:
    """The rollouts that run now, and the figures of those that have ended."""

    def __init__(self, options: Any, store: Store, policies: Policies | None, total: int) -> None:
        self.options = options
        self.store = store
        self.policies = policies
        self.totals = Totals()
        self.progress: Progress = progress(total)
        self.running: list[Running] = []
        self.signals: list[int] = []
        self.logs = Path(store.path) / "logs"
        self.logs.mkdir(mode=0o700, exist_ok=True)

    def run(self, todo: list[Task]) -> int | None:
        """The signal that ended it early, or None when everything ran."""
        jobs = self.options.jobs or os.cpu_count() or 1
        waiting = iter(todo)
        endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, lambda got, _: self.signals.append(got)) for number in endings}
        try:
            exhausted = False
            while self.running or not exhausted:
                self._heed_signals()
                while len(self.running) < jobs and not exhausted and not self.signals:
                    task = next(waiting, None)
                    exhausted = task is None
                    if task is not None:
                        self.running.append(self._start(task))
                exhausted = exhausted or bool(self.signals)
                self._collect()
                self.progress.update(self.totals, len(self.running))
                time.sleep(TICK if self.running else 0)
        finally:
            for one in self.running:  # an error of ours: nothing runs on unseen
                one.kill()
            self.progress.close()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self.signals[0] if self.signals else None

    def _start(self, task: Task) -> Running:
        rollout_id = new_rollout_id()
        report = create_report(self.store.path)
        environment = agent_environment(
            store=self.store.path,
            rollout_id=rollout_id,
            report=report,
            task_id=task.task_id,
            task=task.text,
            functions=named_functions(self.options),
            policies=self.policies,
            variables=variables(self.options),
        )
        self.store.begin_rollout(
            rollout_id, task_id=task.task_id, task=task.row, started_at=time.time(), command=task.command,
            arm=arm_of(rollout_id, self.options.canary),
        )  # fmt: skip
        log = self.logs / f"{rollout_id}.log"
        return Running(task, rollout_id, environment, report, log, self.options.timeout)

    def _heed_signals(self) -> None:
        if len(self.signals) > 1:
            for one in self.running:
                one.kill()
        if self.signals:
            for one in self.running:
                one.stop("interrupted")

    def _collect(self) -> None:
        ended = [one for one in self.running if one.poll()]
        self.running = [one for one in self.running if one not in ended]
        for one in ended:
            finish(self.store.environment, one.rollout_id, one.status, one.exit_code, self.options.reward)
            self.totals.take(self.store.environment, one.rollout_id, one.status, events.take(one.report), self.options)
            self._say_failure(one)

    def _say_failure(self, one: Running) -> None:
        failures = self.totals.statuses["failed"] + self.totals.statuses["timeout"]
        if one.status not in ("failed", "timeout") or failures > FAILURES_SHOWN:
            return
        what = "timed out" if one.status == "timeout" else f"failed with exit status {one.exit_code}"
        words = redacted(one.last_words())  # of a refusal, perhaps, that quotes the key
        self.progress.say(f"task {one.task.task_id} {what}: {words} (log: {_shown(one.log)})")
        if failures == FAILURES_SHOWN:
            self.progress.say("further failures are counted only")


def _done(store: Store) -> Counter[str]:
    """Rollouts with a result, by task."""
    rollouts = (rollout for rollout in store.rollouts() if rollout.status in DONE)
    return Counter(rollout.task_id for rollout in rollouts if rollout.task_id is not None)


def _conclude(totals: Totals, options: Any, interrupted: int | None, wanted: int) -> int:
    for line in warnings(totals, options.command, named_functions(options)) if totals.rollouts else []:
        say(f"warning: {line}")
    for line in notes(totals):
        say(line)
    print(closing_line(totals, options.store), file=sys.stderr, flush=True)
    if interrupted is not None:
        left = wanted - totals.statuses["ok"] - totals.statuses["failed"]
        say(f"interrupted with {left} rollouts to run; the same command with --resume runs them")
        return 128 + interrupted
    if not totals.statuses["ok"]:
        say(f"no rollout ended well; what they printed is in {shlex.quote(os.path.join(options.store, 'logs'))}")
        return 1
    return INCOMPLETE if options.strict and not totals.complete else 0


def _shown(path: Path) -> str:
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown
