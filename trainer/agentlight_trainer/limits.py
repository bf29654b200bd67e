"""Samples cut to what is to be trained, at turn boundaries only; ids, mask, log-probs and turns are cut together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from agentlight_trainer.trajectory import Sample, Turn


def limited(
    samples: Iterable[Sample], counts: Counter[str], *, max_turns: int | None, credit_window: int | None, overlong: str
) -> list[Sample]:
    """What is left of the samples; `counts` takes what was cut, by reason. The samples given stay as they are."""
    made = []
    for sample in samples:
        kept = sample
        if max_turns is not None and len(kept.turns) > max_turns:
            kept = _cut(kept, kept.turns[:max_turns])
            counts[f"samples cut after {max_turns} turns"] += 1
        if overlong == "filter" and (whole := [turn for turn in kept.turns if not turn.truncated]) != kept.turns:
            counts["turns not trained: cut off by the length limit"] += len(kept.turns) - len(whole)
            kept = _untrained(kept, [turn for turn in kept.turns if turn.truncated])
        if credit_window is not None:
            early = [turn for turn in kept.turns if turn.of - 1 - turn.number >= credit_window]
            if early:
                counts[f"turns not trained: before the last {credit_window}"] += len(early)
                kept = _untrained(kept, early)
        if kept.loss_mask.any():
            made.append(kept)
    return made


def within(sample: Sample, length: int) -> Sample | None:
    """The sample up to the last turn that ends within `length` tokens; None when not even the first does."""
    if len(sample.ids) <= length:
        return sample
    fitting = [turn for turn in sample.turns if turn.stop <= length]
    cut = _cut(sample, fitting) if fitting else None
    return cut if cut is not None and cut.loss_mask.any() else None


def _cut(sample: Sample, turns: list[Turn]) -> Sample:
    stop = turns[-1].stop
    return replace(
        sample,
        ids=sample.ids[:stop],
        loss_mask=sample.loss_mask[:stop],
        behaviour_logprobs=sample.behaviour_logprobs[:stop],
        temperatures=sample.temperatures[:stop],
        turns=turns,
    )


def _untrained(sample: Sample, turns: list[Turn]) -> Sample:
    mask = sample.loss_mask.copy()
    for turn in turns:
        mask[turn.start : turn.stop] = False
    return replace(sample, loss_mask=mask, turns=[turn for turn in sample.turns if turn not in turns])
