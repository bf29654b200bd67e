"""Does the prefix tree compute what plain rows compute, on this very model? Asked once, before a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from agentlight_trainer.packing import pack_tree
from agentlight_trainer.policy import Policy
from agentlight_trainer.trajectory import Sample

LENGTH = 48
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.02}  # mean |difference| of log-probs


def tree_fault(policy: Policy, samples: Sequence[Sample]) -> str | None:
    """What is wrong with the tree on this model; None if log-probs agree with the model's own plain forward."""
    stem = np.concatenate([sample.ids for sample in samples[:4]])[: 2 * LENGTH].tolist() * 2
    stem = stem[: 2 * LENGTH]
    rows = [stem[:LENGTH], stem[: LENGTH // 2] + stem[LENGTH:], stem[: LENGTH // 2] + stem[-LENGTH // 4 :]]
    try:
        (pack,) = pack_tree([_row(row) for row in rows], 10 * LENGTH)
        tree_T, _ = policy.score(pack)
        with torch.no_grad():
            plain_T = torch.cat([policy.plain_logprobs(sample.ids.tolist()) for sample in pack.samples]).cpu()
    except (TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    difference = float((tree_T - plain_T).abs().mean())
    if not difference < TOLERANCE.get(policy.dtype, 0.05):
        return f"log-probs differ by {difference:.2g} on average from those of plain rows"
    return None


def _row(ids: list[int]) -> Sample:
    made = np.array(ids)
    mask = np.ones(len(ids), bool)
    mask[0] = False
    unknown = np.full(len(ids), np.nan, np.float32)
    return Sample("", "", "", made, mask, unknown, np.ones(len(ids), np.float32), [])
