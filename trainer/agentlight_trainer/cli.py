"""`agentlight-train`: parse, train, say in one line what came out."""

from __future__ import annotations

import os
import sys

from agentlight_store.errors import AgentlightError, StoreError
from agentlight_trainer.config import parse
from agentlight_trainer.errors import SettingError


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
        from agentlight_trainer.train import (
            train,
        )  # torch takes seconds to import, and --help needs none of it

        result = train(config)
    except AgentlightError as error:
        print(f"agentlight-train: {error}", file=sys.stderr)
        return 2 if isinstance(error, (SettingError, StoreError)) else 1
    except KeyboardInterrupt:
        print("agentlight-train: interrupted; --resume goes on from the last checkpoint", file=sys.stderr)
        return 130
    rollouts = f"{result.rollouts} rollouts ({result.groups} groups with signal), reward {result.reward:.2f}"
    if result.weights is None:
        print(f"agentlight-train: dry run, {rollouts}: nothing was trained")
        return 0
    published = f", served as {result.published}" if result.published else ""
    print(
        f"agentlight-train: {result.steps} steps on {rollouts} -> {result.weights}{published}, report {result.report}"
    )
    return 0
