"""From calls to samples, on ids only."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest
from rollouts import span

from agentlight_store import Choice, Rollout, Span
from agentlight_trainer.trajectory import Trajectories, build


def built(*spans: Span, **options: Any) -> Trajectories:
    for number, call in enumerate(spans):
        call.span_id = str(number)
    return build(Rollout("r", task_id="t", spans=list(spans)), **options)


def ids(made: Trajectories) -> list[list[int]]:
    return [sample.ids.tolist() for sample in made.samples]


def trained(made: Trajectories) -> list[list[int]]:
    return [sample.ids[sample.loss_mask].tolist() for sample in made.samples]


def test_a_prompt_that_extends_an_earlier_call_continues_its_sample():
    """Three turns with observations between them are one sample; only what was sampled is trained."""
    made = built(span([1, 2], [3, 4]), span([1, 2, 3, 4, 50], [5]), span([1, 2, 3, 4, 50, 5, 51, 52], [6, 7]))
    assert ids(made) == [[1, 2, 3, 4, 50, 5, 51, 52, 6, 7]]
    assert trained(made) == [[3, 4, 5, 6, 7]]
    assert [(turn.start, turn.stop) for turn in made.samples[0].turns] == [(2, 4), (5, 6), (8, 10)]


def test_two_interleaved_agents_stay_two_samples_and_compaction_starts_a_third():
    """A1 B1 A2 B2 A3 gives 2 rows; a summary of the history gives one more, counted and named."""
    a1, b1 = span([1], [2]), span([9], [8])
    a2, b2 = span([1, 2, 3], [4]), span([9, 8, 7], [6])
    a3, summary = span([1, 2, 3, 4, 5], [6]), span([1, 40, 41], [42])
    made = built(a1, b1, a2, b2, a3, summary)
    assert ids(made) == [[1, 2, 3, 4, 5, 6], [9, 8, 7, 6], [1, 40, 41, 42]]
    assert made.breaks == {"unknown": 1}  # of ids alone; with messages: tests/store/test_lineage.py


def test_a_dropped_or_rewritten_completion_starts_a_new_sample_and_is_named():
    """The template that strips earlier thinking, and a tokenizer that spells the same text otherwise."""
    made = built(span([1, 2], [3, 4]), span([1, 2, 4, 50], [5]))
    assert ids(made) == [[1, 2, 3, 4], [1, 2, 4, 50, 5]]
    assert made.breaks == {"the template dropped reasoning": 1}


def test_a_fork_trains_every_sampled_token_once():
    """Two calls that continue the same turn: the shared completion is context in the second sample."""
    made = built(span([1], [2]), span([1, 2, 3], [4]), span([1, 2, 5], [6]))
    assert ids(made) == [[1, 2, 3, 4], [1, 2, 5, 6]]
    assert trained(made) == [[2, 4], [6]]


def two_choices() -> Span:
    choices = [Choice(index, completion_ids=array("I", [token])) for index, token in enumerate((3, 4))]
    return span([1, 2], [], choices=choices)


def test_of_several_choices_the_one_that_a_later_prompt_extends_is_used():
    made = built(two_choices(), span([1, 2, 4, 9], [5]))
    assert trained(made) == [[4, 5]]


def test_several_choices_without_a_later_call_are_dropped_and_counted():
    made = built(two_choices())
    assert made.samples == []
    assert made.dropped == {"n > 1, and no later call shows which choice was used": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "error"}, "the call failed"),
        ({"status": "partial"}, "the reply was cut off"),
        ({"trainable": False, "reason": "usage says 20"}, "usage says 20"),
        ({"prompt_ids": None}, "no token ids"),
        ({"choices": []}, "no token ids"),
        ({"choices": [Choice(completion_ids=array("I"))]}, "no sampled tokens"),
        (
            {"choices": [Choice(completion_ids=array("I", [1, 2]), completion_logprobs=array("f", [0]))]},
            "ids and log-probs differ in number",
        ),
        ({"role": "critic"}, "another role than --component"),
    ],
)
def test_each_kind_of_unusable_call_is_dropped_under_its_own_reason(changes: dict[str, Any], reason: str):
    made = built(span([1], [2]), span([5], [6], **changes), components=["agent"])
    assert made.dropped == {reason: 1}
    assert trained(made) == [[2]]


def test_a_missing_or_impossible_logprob_is_unknown_and_counted():
    """NaN (null in the reply), minus infinity, vLLM's -9999 and a positive log-prob; 0 is certain, and fine."""
    made = built(span([1], [2] * 6, [float("nan"), float("-inf"), -9999.0, 0.5, -0.1, 0.0]))
    assert np.isnan(made.samples[0].behaviour_logprobs[1:]).tolist() == [True] * 4 + [False] * 2
    assert made.unknown == {"log-prob missing or not finite": 4}


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0},
        {"top_p": 0.9},
        {"top_k": 20},
        {"min_p": 0.05},
        {"repetition_penalty": 1.1},
        {"frequency_penalty": 0.5},
        {"presence_penalty": 0.5},
    ],
)
def test_settings_that_change_the_support_make_the_ratio_unknown(sampling: dict[str, Any]):
    """The captured number is of another distribution than a softmax over all tokens."""
    made = built(span([1], [2, 3], sampling={"temperature": 1.0} | sampling))
    assert np.isnan(made.samples[0].behaviour_logprobs).all()
    assert sum(made.unknown.values()) == 2


def test_neutral_settings_and_the_temperature_are_kept():
    neutral = {"top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "presence_penalty": 0}
    made = built(span([1], [2], [-0.5], sampling={"temperature": 0.5} | neutral))
    assert made.samples[0].behaviour_logprobs[1] == -0.5
    assert made.samples[0].temperatures.tolist() == [1.0, 0.5]


def test_what_a_request_leaves_unset_comes_from_the_models_own_defaults():
    """A server adds top_k 20 of generation_config.json without a word."""
    made = built(span([1], [2], sampling={}), defaults=lambda root: {"temperature": 0.7, "top_k": 20})
    assert made.samples[0].temperatures[1] == pytest.approx(0.7)
    assert made.unknown == {"truncated or penalised sampling (top_k)": 1}


def test_an_unknown_temperature_is_said_and_taken_as_one():
    made = built(span([1], [2], sampling={}))
    assert made.samples[0].turns[0].setting == "temperature unset, taken as 1"


def test_building_changes_nothing_that_was_captured():
    calls = [span([1], [2], [float("nan")]), span([1, 2, 3], [4])]
    before = [(bytes(call.prompt_ids), bytes(call.completion_ids)) for call in calls]  # type: ignore[arg-type] # arrays
    built(*calls)
    assert [(bytes(call.prompt_ids), bytes(call.completion_ids)) for call in calls] == before  # type: ignore[arg-type]
