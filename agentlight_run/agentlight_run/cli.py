"""Run an agent with capture: every LLM call of COMMAND becomes a token-exact span in the store."""

from __future__ import annotations

import argparse
import os
import sys

from agentlight_store.errors import AgentlightError

TYPE_CHECKING = False  # `typing` is loaded while the agent starts, not before
if TYPE_CHECKING:
    from typing import Any

EXAMPLES = """\
examples:
  agentlight-run python agent.py                      record what the agent asks its own LLM
  agentlight-run --policy http://127.0.0.1:8000 python agent.py
                                                      ... but let that server answer, with ids
  agentlight-run --serve ./model --tasks train.jsonl --samples 8 --reward agent:score \\
      python agent.py --question '{question}'         8 rollouts of each row of train.jsonl
"""


def main(argv: list[str] | None = None) -> int:
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        if options.tasks is not None:
            from agentlight_run.fanout import run
        else:
            from agentlight_run.single import run
        return run(options)
    except AgentlightError as error:
        print(f"agentlight-run: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    except KeyboardInterrupt as error:
        print("agentlight-run: interrupted", file=sys.stderr)
        return 128 + getattr(error, "signum", 2)


def parse(argv: list[str]) -> Any:
    """The options, with `command` as a list; a usage error ends the process with status 2."""
    parser, valued = _parser()
    cut = _command_begins(argv, valued)
    options = parser.parse_args(argv[:cut])
    rest = argv[cut:]
    options.command = rest[1:] if rest[:1] == ["--"] else rest
    problem = _problem(options)
    if problem:
        parser.error(problem)
    options.store = options.store or os.environ.get("AGENTLIGHT_STORE") or "./store"
    return options


def _parser() -> tuple[argparse.ArgumentParser, set[str]]:
    """And the names of the options that take a value."""
    parser = argparse.ArgumentParser(
        prog="agentlight-run", usage="agentlight-run [options] [--] COMMAND...", description=__doc__, epilog=EXAMPLES,
        formatter_class=_formatter, allow_abbrev=False,
    )  # fmt: skip
    add = parser.add_argument
    valued = [
        add("--store", metavar="DIR", help="where to record (default: $AGENTLIGHT_STORE, else ./store)"),
        add("--reward", metavar="WHAT", help="exit-code, or MODULE:QUALNAME of a function whose results are rewards"),
        add("--timeout", metavar="S", type=_seconds, help="end a rollout after S seconds"),
        add("--policy", metavar="URL", help="send the agent's LLM calls to this server"),
        add("--policy-model", metavar="NAME", help="the model to ask it for (default: the one it serves)"),
        add("--serve", metavar="MODEL", help="start vLLM with this model and send the calls there"),
        add("--adapter", metavar="DIR", help="with --serve: use this LoRA adapter"),
        add("--task-id", metavar="ID", help="the task that this one rollout belongs to"),
        add("--tasks", metavar="FILE", help="JSONL, a task a row; {field} in COMMAND is the row's field"),
        add("--samples", metavar="N", type=_positive, help="with --tasks: rollouts of each task (default 1)"),
        add("--jobs", metavar="J", type=_positive, help="with --tasks: how many at a time (default: CPUs)"),
    ]
    add("--resume", action="store_true", help="with --tasks: run only what the store lacks")
    add("--strict", action="store_true", help="exit with 3 when the agent ends well but not all was captured")
    return parser, {name for action in valued for name in action.option_strings}


def _formatter(prog: str) -> argparse.HelpFormatter:
    # Given no width, argparse imports shutil and all of its compression modules to ask for one.
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 100
    return argparse.RawDescriptionHelpFormatter(prog, width=width, max_help_position=24)


def _command_begins(argv: list[str], valued: set[str]) -> int:
    """The index of "--" or of the first word that is no option: whatever follows is the agent's own."""
    position = 0
    while position < len(argv) and argv[position] != "--" and argv[position].startswith("-"):
        position += 2 if argv[position] in valued else 1
    return position


def _problem(options: Any) -> str | None:
    """What is wrong with the combination; an option without effect is a mistake, not a detail."""
    many, serve, policy = options.tasks is not None, options.serve is not None, options.policy is not None
    idle = {
        "--samples needs --tasks": options.samples is not None and not many,
        "--jobs needs --tasks": options.jobs is not None and not many,
        "--resume needs --tasks": options.resume and not many,
        "--task-id is for one rollout; with --tasks the rows name their tasks": options.task_id is not None and many,
        "--adapter needs --serve": options.adapter is not None and not serve,
        "--policy-model needs --policy": options.policy_model is not None and not policy,
        "--serve and --policy exclude each other": serve and policy,
        f"--reward {options.reward} is neither exit-code nor MODULE:QUALNAME": not _is_reward(options.reward),
        "no command: what shall be run?": not options.command,
    }
    return next((problem for problem, there in idle.items() if there), None)


def _is_reward(reward: str | None) -> bool:
    if reward is None or reward == "exit-code":
        return True
    module, colon, qualname = reward.partition(":")
    parts = (module + "." + qualname).split(".")
    return bool(colon) and all(part.isidentifier() or part == "<locals>" for part in parts)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number
