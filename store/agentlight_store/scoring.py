"""Score stored rollouts again with any Python function, offline; earlier scores stay beside the new one."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentlight_store.errors import AgentlightError
from agentlight_store.rollout import Rollout
from agentlight_store.store import Store

Scorer = Callable[[Rollout], Any]


class ScorerError(AgentlightError):
    """The scoring function cannot be loaded, failed, or returned no number."""


def load_scorer(target: str) -> Scorer:
    """`FILE.py:FUNCTION` to the function. Raises ScorerError naming what is missing."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not file or not name or not path.is_file():
        raise ScorerError(f"{target!r} is not FILE.py:FUNCTION with an existing file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ScorerError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # as Python does for a script: its neighbours can be imported
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ScorerError(f"{file} could not be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    scorer = module
    for part in name.split("."):
        scorer = getattr(scorer, part, None)
    if not callable(scorer):
        raise ScorerError(f"{file} has no function {name!r}")
    return scorer


def score(store: Store, scorer: Scorer, name: str, source: str) -> Iterator[tuple[Rollout, float | None]]:
    """Score every rollout under `name`, yielding as it goes; None leaves a rollout unscored.

    Raises ScorerError naming the rollout when the function fails or returns something that is no finite number.
    """
    for rollout in store.rollouts():
        try:
            value = scorer(rollout)
        except Exception as error:
            raise ScorerError(
                f"rollout {rollout.rollout_id}: {source} failed: {type(error).__name__}: {error}"
            ) from error
        if value is not None:
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ScorerError(
                    f"rollout {rollout.rollout_id}: {source} returned {value!r}, which is no finite number"
                )
            store.add_reward(rollout.rollout_id, float(value), name=name, source=source)
        yield rollout, None if value is None else float(value)
