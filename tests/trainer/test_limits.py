"""Samples cut at turn boundaries: what goes is counted, what stays is untouched."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from rollouts import span

from agentlight_store import Rollout
from agentlight_trainer.limits import limited, within
from agentlight_trainer.trajectory import Sample, build


def three_turns(last: str = "stop") -> Sample:
    """[1 2 | 3 4] 5 [6] 7 8 [9 9]: ten tokens, sampled ones in brackets after the first prompt."""
    spans = [
        span([1, 2], [3, 4], [-0.1, -0.2], span_id="a"),
        span([1, 2, 3, 4, 5], [6], [-0.3], span_id="b"),
        span([1, 2, 3, 4, 5, 6, 7, 8], [9, 9], [-0.4, -0.5], span_id="c"),
    ]
    spans[-1].choices[0].finish_reason = last
    (sample,) = build(Rollout("r", task_id="t", spans=spans)).samples
    return sample


def cut(sample: Sample, **options: Any) -> tuple[list[Sample], Counter[str]]:
    counts = Counter[str]()
    given: dict[str, Any] = {"max_turns": None, "credit_window": None, "overlong": "keep"}
    return limited([sample], counts, **given | options), counts


def trained(sample: Sample) -> list[int]:
    return sample.ids[sample.loss_mask].tolist()


def test_the_model_s_context_cuts_after_the_last_turn_that_fits():
    """9 tokens hold two turns, which end with token 6; ids, mask, log-probs and temperatures are cut alike."""
    sample = within(three_turns(), 9)
    assert sample is not None
    assert sample.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert trained(sample) == [3, 4, 6]
    assert {len(part) for part in (sample.ids, sample.loss_mask, sample.behaviour_logprobs, sample.temperatures)} == {6}
    assert [turn.span_id for turn in sample.turns] == ["a", "b"]
    assert within(three_turns(), 3) is None
    whole = three_turns()
    assert within(whole, 10) is whole


def test_max_turns_keeps_the_first_and_counts():
    (sample,), counts = cut(three_turns(), max_turns=1)
    assert trained(sample) == [3, 4]
    assert counts == {"samples cut after 1 turns": 1}


def test_the_credit_window_trains_the_last_turns_and_keeps_the_context():
    """All ten tokens stay, only the last turn's two are trained: in no denominator are the others."""
    (sample,), counts = cut(three_turns(), credit_window=1)
    assert (len(sample.ids), trained(sample)) == (10, [9, 9])
    assert counts == {"turns not trained: before the last 1": 2}


def test_a_turn_that_the_length_limit_cut_off_is_not_trained_with_overlong_filtering():
    (sample,), counts = cut(three_turns("length"), overlong="filter")
    assert trained(sample) == [3, 4, 6]
    assert counts == {"turns not trained: cut off by the length limit": 1}
    (kept,), counts = cut(three_turns("length"))
    assert trained(kept) == [3, 4, 6, 9, 9] and not counts


def test_what_is_given_stays_as_it_is():
    sample = three_turns("length")
    before = (sample.ids.copy(), sample.loss_mask.copy(), list(sample.turns))
    cut(sample, max_turns=2, credit_window=1, overlong="filter")
    within(sample, 6)
    assert np.array_equal(sample.ids, before[0]) and np.array_equal(sample.loss_mask, before[1])
    assert sample.turns == before[2]
