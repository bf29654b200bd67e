"""Run an agent with capture: every LLM call of COMMAND becomes a token-exact span in the store."""

from __future__ import annotations

import os
import sys

from agentlight_store.errors import AgentlightError

TYPE_CHECKING = False  # `typing` is loaded while the agent starts, not before
if TYPE_CHECKING:
    from typing import Any

EXAMPLES = """\
examples:
  agentlight-run python agent.py                      record what the agent asks its own LLM
  agentlight-run --policy http://127.0.0.1:8000 python agent.py   that server answers, with ids
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


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is no whole number above 0")
    return int(text)


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"{text!r} is no share between 0 and 1")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise ValueError(f"{text!r} is no number of seconds above 0")
    return number


# Flag, name of its value (None: it is a switch; "...": it can be given again), how to read the value, help. From
# here both the reader of a plain command line and argparse are made: argparse, for help and for mistakes only, costs
# as much as all else we import.
OPTIONS: tuple[tuple[str, str | None, Any, str], ...] = (
    ("--store", "DIR", str, "where to record (default: $AGENTLIGHT_STORE, else ./store)"),
    ("--reward", "WHAT", str, "exit-code, or MODULE:QUALNAME of a function whose results are rewards"),
    ("--rollout", "FUNCTION...", str, "each call of this function (MODULE:QUALNAME) is a rollout"),
    ("--role", "FUNCTION...", str, "MODULE:QUALNAME[=NAME]: calls inside are of this agent role"),
    ("--tool", "FUNCTION...", str, "MODULE:QUALNAME[=NAME]: record its arguments and results"),
    ("--timeout", "S", _seconds, "end a rollout after S seconds"),
    ("--max-step-timeout", "S", _seconds, "an LLM call waits no longer than S seconds for its next bytes"),
    ("--retry-strategy", "NAME", str, "exponential_backoff: a call that timed out is made up to twice more"),
    ("--policy", "[ROLE=]URL...", str, "send the LLM calls, or those of one agent role, to this server"),
    ("--policy-model", "[ROLE=]NAME...", str, "the model to ask it for (default: the one it serves)"),
    ("--component", "ROLE...", str, "send the calls of this role only; all others stay as they are"),
    ("--canary", "SHARE", _share, "send this share of the rollouts only, and compare (agentlight-store stats)"),
    ("--serve", "MODEL", str, "start vLLM with this model and send the calls there"),
    ("--adapter", "DIR", str, "with --serve: use this LoRA adapter"),
    ("--task-id", "ID", str, "the task that this one rollout belongs to"),
    ("--tasks", "FILE", str, "JSONL, a task a row; {field} in COMMAND is the row's field"),
    ("--samples", "N", _positive, "with --tasks: rollouts of each task (default 1)"),
    ("--jobs", "J", _positive, "with --tasks: how many at a time (default: CPUs)"),
    ("--trace-sampling-rate", "SHARE", _share, "record this share of the rollouts (default 1)"),
    ("--reward-threshold", "R", float, "... and each one with at least this reward"),
    ("--max-span-per-minute", "N", _positive, "record whole rollouts only up to so many calls a minute and process"),
    ("--async-data-upload", None, bool, "commit from a thread: a killed process may lose what waits (up to 1,000)"),
    ("--profile", None, bool, "say at the end where the time of capture went"),
    ("--config", "FILE", str, "settings from a YAML file; flags win"),
    ("--resume", None, bool, "with --tasks: run only what the store lacks"),
    ("--strict", None, bool, "exit with 3 when the agent ends well but not all was captured"),
)


class Options:
    """What the command line asks for: an attribute an option, None or False where it was not given."""

    store: str
    command: list[str]

    def __init__(self) -> None:
        for flag, value_name, _, _ in OPTIONS:
            self.__dict__[_attribute(flag)] = [] if _repeats(value_name) else None if value_name else False
        self.command = []

    def __getattr__(self, name: str) -> Any:  # for the type checker: attributes come from the table
        raise AttributeError(name)


def parse(argv: list[str]) -> Options:
    """The options, with `command` as a list; a usage error ends the process with status 2."""
    cut = _command_begins(argv)
    options = _read(argv[:cut])
    if options is None:
        options = _parser().parse_args(argv[:cut], Options())
    if options.config is not None:
        from agentlight_run.config import fill

        fill(options, options.config)
    rest = argv[cut:]
    options.command = rest[1:] if rest[:1] == ["--"] else rest
    problem = _problem(options)
    if problem:
        _parser().error(problem)
    options.store = options.store or os.environ.get("AGENTLIGHT_STORE") or "./store"
    return options


def _read(words: list[str]) -> Options | None:
    """The options of a command line without help and mistakes; None for any other."""
    options, table = Options(), {option[0]: option for option in OPTIONS}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        _, value_name, read, _ = table.get(flag, ("", None, None, ""))
        if read is None or (equals and value_name is None):
            return None
        if value_name is not None and not equals:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        try:
            found = read(value) if value_name else True
        except ValueError:
            return None
        if _repeats(value_name):
            getattr(options, _attribute(flag)).append(found)
        else:
            setattr(options, _attribute(flag), found)
    return options


def _repeats(value_name: str | None) -> bool:
    return value_name is not None and value_name.endswith("...")


def _attribute(flag: str) -> str:
    return flag[2:].replace("-", "_")


def _parser() -> Any:
    import argparse

    # Given no width, argparse imports shutil and all of its compression modules to ask for one.
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 100
    parser = argparse.ArgumentParser(
        prog="agentlight-run", usage="agentlight-run [options] [--] COMMAND...", description=__doc__, epilog=EXAMPLES,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width, max_help_position=24),
        allow_abbrev=False,
    )  # fmt: skip

    def reader(read: Any) -> Any:
        def checked(text: str) -> Any:
            try:
                return read(text)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        return checked

    for flag, value_name, read, words in OPTIONS:
        if value_name is None:
            parser.add_argument(flag, action="store_true", help=words)
        else:
            action = "append" if _repeats(value_name) else "store"
            name = value_name.removesuffix("...").replace("[ROLE=]", "")
            parser.add_argument(flag, metavar=name, type=reader(read), action=action, help=words)
    return parser


def _command_begins(argv: list[str]) -> int:
    """The index of "--" or of the first word that is no option: whatever follows is the agent's own."""
    valued = {flag for flag, value_name, _, _ in OPTIONS if value_name}
    position = 0
    while position < len(argv) and argv[position] != "--" and argv[position].startswith("-"):
        position += 2 if argv[position] in valued else 1
    return position


def _problem(options: Any) -> str | None:
    """What is wrong with the combination; an option without effect is a mistake, not a detail."""
    many, serve, policy = options.tasks is not None, options.serve is not None, bool(options.policy)
    idle = {
        "--samples needs --tasks": options.samples is not None and not many,
        "--jobs needs --tasks": options.jobs is not None and not many,
        "--resume needs --tasks": options.resume and not many,
        "--task-id is for one rollout; with --tasks the rows name their tasks": options.task_id is not None and many,
        "--adapter needs --serve": options.adapter is not None and not serve,
        "--policy-model needs --policy": bool(options.policy_model) and not policy,
        "--component needs --policy or --serve": bool(options.component) and not (serve or policy),
        "--canary needs --policy or --serve": options.canary is not None and not (serve or policy),
        "--reward-threshold needs --trace-sampling-rate: all rollouts are recorded": (
            options.reward_threshold is not None and options.trace_sampling_rate is None
        ),
        f"--retry-strategy {options.retry_strategy} is neither none nor exponential_backoff": (
            options.retry_strategy not in (None, "none", "exponential_backoff")
        ),
        "--serve and --policy exclude each other": serve and policy,
        f"--reward {options.reward} is neither exit-code nor MODULE:QUALNAME": not (
            options.reward in (None, "exit-code") or _is_function(options.reward)
        ),
        **{
            f"{flag} {target} is not MODULE:QUALNAME{'' if flag == '--rollout' else '[=NAME]'}": not _is_function(name)
            for flag, target in named_functions(options)
            for name in (target if flag in ("--reward", "--rollout") else target.partition("=")[0],)
        },
        "no command: what shall be run?": not options.command,
    }
    return next((problem for problem, there in idle.items() if there), None)


def named_functions(options: Any) -> list[tuple[str, str]]:
    """The flags that name a function of the agent's, with what they name."""
    reward = [] if options.reward in (None, "exit-code") else [options.reward]
    named = {"--reward": reward, "--rollout": options.rollout, "--role": options.role, "--tool": options.tool}
    return [(flag, target) for flag, targets in named.items() for target in targets]


def _is_function(target: str) -> bool:
    module, colon, qualname = target.partition(":")
    parts = (module + "." + qualname).split(".")
    return bool(colon) and all(part.isidentifier() or part == "<locals>" for part in parts)
