"""`agentlight-train`: parse, train, say in one line what came out."""

from __future__ import annotations

import os
import sys

from agentlight_store.errors import AgentlightError, StoreError
from agentlight_trainer.config import parse
from agentlight_trainer.errors import SettingError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentlight_trainer.train import Result


def main(argv: list[str] | None = None) -> int:
    try:
        config = parse(argv)
    except AgentlightError as error:
        print(f"agentlight-train: {error}", file=sys.stderr)
        return 2
    # Read when torch is imported. Where another process wants the same cores (a vLLM, say), threads that spin
    # at a barrier keep the one they wait for from running: a pass took 30 s so, and 4 s with threads that sleep.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        # torch takes seconds to import, and --help needs none of it
        from agentlight_trainer.train import train, train_roles

        if os.environ.get("RANK", "0") != "0":  # the first rank speaks for all of torchrun's
            train_roles(config) if config.per_role else train(config)
            return 0
        if config.collect:
            from agentlight_trainer.rounds import plot, run_rounds

            result, rounds = run_rounds(config)
            print("\n".join(plot(rounds)))
            print(f"agentlight-train: {config.rounds} rounds, the last one: {line_of(result)}")
            return 0
        if config.per_role:
            for role, made in train_roles(config).items():
                print(f"agentlight-train: {role}: {line_of(made)}")
            return 0
        result = train(config)
    except AgentlightError as error:
        print(f"agentlight-train: {error}", file=sys.stderr)
        return 2 if isinstance(error, (SettingError, StoreError)) else 1
    except KeyboardInterrupt:
        print("agentlight-train: interrupted; --resume goes on from the last checkpoint", file=sys.stderr)
        return 130
    print(f"agentlight-train: {line_of(result)}")
    return 0


def line_of(result: Result) -> str:
    rollouts = f"{result.rollouts} rollouts ({result.groups} groups with signal), reward {result.reward:.2f}"
    if result.weights is None:
        return f"dry run, {rollouts}: nothing was trained"
    published = f", served as {', '.join(dict.fromkeys(result.published))}" if result.published else ""
    return f"{result.steps} steps on {rollouts} -> {result.weights}{published}, report {result.report}"
