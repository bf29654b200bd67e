"""Look into a store of rollouts, check it, and score it again."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from agentlight_store import exports
from agentlight_store.check import check
from agentlight_store.doctor import REMEDIES, findings
from agentlight_store.errors import AgentlightError
from agentlight_store.otlp import DEFAULT_ENDPOINT, export, traces_url
from agentlight_store.printing import cell, print_json, print_table
from agentlight_store.rollout import Event
from agentlight_store.scoring import load_scorer, score
from agentlight_store.span import Span
from agentlight_store.stats import stats
from agentlight_store.store import Store
from agentlight_store.views import as_json, rollout_line, span_line


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what an agent said may be no text that this terminal has
    try:
        return options.run(options)
    except AgentlightError as error:
        print(f"agentlight-store: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("agentlight-store: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `agentlight-store ls store | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agentlight-store", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[Any], int], text: str, *, json: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("store", metavar="STORE", help="the store's folder")
        command.set_defaults(run=run)
        if json:
            command.add_argument("--json", action="store_true", help="one JSON object a line")
        return command

    add("ls", _ls, "list the rollouts")
    add("show", _show, "show the calls of one rollout").add_argument(
        "rollout", metavar="ROLLOUT", help="its id, or the beginning of it"
    )
    add("stats", _stats, "count calls, tokens and rewards")
    add("check", _check, "verify every reference, hash and count; exit status 1 if anything is wrong")
    command = add("score", _score, "score every rollout with f(rollout) -> float | None")
    command.add_argument("scorer", metavar="FILE.py:FUNCTION", help="a function of one agentlight_store.Rollout")
    command.add_argument("--name", help="keep the scores under this name (default: the function's)")
    add("doctor", _doctor, "name each place where a conversation does not extend itself, with both texts")
    command = add("export", _export, "send the rollouts to a collector, or write them for other trainers", json=False)
    command.add_argument(
        "--format",
        choices=["otlp", *exports.FORMATS],
        default="otlp",
        help="otlp (default) is sent, others are written",
    )
    command.add_argument(
        "--endpoint", metavar="URL", help=f"of otlp (default: $OTEL_EXPORTER_OTLP_ENDPOINT, {DEFAULT_ENDPOINT})"
    )
    command.add_argument(
        "--output", metavar="FILE", help="JSONL, or Parquet if it ends so (default: STORE-FORMAT.jsonl)"
    )
    command.add_argument("--min-reward", type=float, metavar="R", help="only rollouts with at least this reward")
    return parser


def _export(options: Any) -> int:
    if options.format != "otlp":
        return _write(options)
    endpoint = traces_url(options.endpoint)
    store = Store.open(options.store)
    rollouts, sent = len(store.rollout_ids()), 0
    for sent in export(store.rollouts(), endpoint):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{sent:,} spans", end="", file=sys.stderr, flush=True)
    end = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{end}agentlight-store: {sent:,} spans ({rollouts:,} rollouts) sent to {endpoint}", file=sys.stderr)
    return 0


def _write(options: Any) -> int:
    path = options.output or f"{os.path.basename(os.path.abspath(options.store))}-{options.format}.jsonl"
    rollouts = Store.open(options.store).rollouts()
    number = exports.write(exports.rows(rollouts, options.format, options.min_reward), path)
    print(f"agentlight-store: {number:,} rows of {options.format} -> {path}", file=sys.stderr)
    return 0


def _doctor(options: Any) -> int:
    found = findings(Store.open(options.store))
    if options.json:
        return print_json(found)
    counts: Counter[str] = Counter()
    for one in found:
        counts[one["break"]] += 1
        print(
            f"{one['rollout_id']} call {one['call']} ({one['role']}) does not extend call {one['continues_call']}:"
            f" {one['break']}\n  sampled  {one['sampled']!r} {one['sampled_ids']}\n"
            f"  sent     {one['sent']!r} {one['sent_ids']}"
        )
    for name, number in counts.most_common():
        print(f"{number:,} x {name}: {REMEDIES[name]}")
    print(
        f"{options.store}: {sum(counts.values()):,} breaks"
        if counts
        else f"{options.store}: every conversation extends itself"
    )
    return 0


def _ls(options: Any) -> int:
    lines = (rollout_line(rollout) for rollout in Store.open(options.store).rollouts())
    if options.json:
        return print_json(lines)
    columns = ("rollout_id", "task_id", "status", "calls", "prompt_tokens", "completion_tokens", "reward")
    rows = [[cell(line[column]) for column in columns] for line in lines]
    return print_table(["rollout", "task", "status", "calls", "prompt", "completion", "reward"], rows)


def _show(options: Any) -> int:
    rollout = Store.open(options.store).rollout(options.rollout)
    if options.json:
        return print_json(span_line(span, rollout.task_id) for span in rollout.spans)
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    rewards = ", ".join(f"{name} {value:g}" for name, value in rollout.rewards.items()) or "unscored"
    console.print(f"[bold]{rollout.rollout_id}[/]  task {rollout.task_id}  {rollout.status}  {rewards}")
    calls = {id(span): number for number, span in enumerate(rollout.spans, 1)}
    for one in sorted([*rollout.spans, *rollout.events], key=lambda one: one.started_at):
        if isinstance(one, Event):
            console.print(f"\n[bold yellow]{one.kind}[/]  {escape(one.name)}  {escape(str(one.content))}")
        else:
            _show_call(console, calls[id(one)], one)
    return 0


def _show_call(console: Any, number: int, span: Span) -> None:
    from rich.markup import escape

    state = "trainable" if span.trainable else f"not trainable: {span.reason}"
    tokens = f"{span.prompt_tokens:,} + {span.completion_tokens:,} tokens"
    seconds = span.ended_at - span.started_at
    console.print(f"\n[bold cyan]call {number}[/]  {span.model}  {tokens}  {seconds:.2f} s  {span.status}, {state}")
    for message in span.messages:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else ("?", message)
        console.print(f"  [dim]{escape(str(role))}[/]  {escape(str(content))}")
    for choice in span.choices:
        console.print(f"  [green]completion[/]  {escape(str(choice.text))}")
        for call in choice.tool_calls or []:
            console.print(f"  [green]tool call[/]  {escape(str(call))}")


def _stats(options: Any) -> int:
    figures = stats(Store.open(options.store))
    if options.json:
        return print_json([figures])
    rows = []
    for name, value in figures.items():
        items = value.items() if isinstance(value, dict) else [("", value)]
        rows += [[f"{name} {key}".strip().replace("_", " "), cell(item)] for key, item in items]
    return print_table(["", ""], rows)


def _check(options: Any) -> int:
    findings = check(options.store)
    if options.json:
        print_json({"finding": finding} for finding in findings)
    else:
        print("\n".join(findings) or f"{options.store}: clean")
    return 1 if findings else 0


def _score(options: Any) -> int:
    name = options.name or options.scorer.rpartition(":")[2]
    store = Store.open(options.store)
    values = []
    for rollout, value in score(store, load_scorer(options.scorer), name, options.scorer):
        values.append(value)
        if options.json:
            print(as_json({"rollout_id": rollout.rollout_id, "name": name, "value": value}))
    scored = [value for value in values if value is not None]
    mean = f", mean {sum(scored) / len(scored):.3f}" if scored else ""
    print(f"agentlight-store: {len(scored)} of {len(values)} rollouts scored as {name!r}{mean}", file=sys.stderr)
    return 0
