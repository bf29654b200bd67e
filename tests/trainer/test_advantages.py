"""Groups and baselines: the hand values of the literature, to four digits."""

from __future__ import annotations

import numpy as np
import pytest
from rollouts import span

from agentlight_store import Rollout
from agentlight_trainer.advantages import group_samples, set_advantages
from agentlight_trainer.trajectory import build


def advantages(rewards: list[float | None], estimator: str = "group") -> list[float | None]:
    samples, scores = [], {}
    for number, reward in enumerate(rewards):
        rollout = Rollout(f"r{number}", task_id="t", spans=[span([1], [2])])
        samples += build(rollout).samples
        scores[rollout.rollout_id] = reward
    (group,) = group_samples(samples, scores)
    set_advantages([group], estimator)
    return [group.advantages.get(f"r{number}") for number in range(len(rewards))]


@pytest.mark.parametrize(
    ("rewards", "grouped", "centred", "left_out"),
    [
        ([1, 0, 1, 0], (0.8660, -0.8660), (0.5, -0.5), (0.6667, -0.6667)),
        ([1, 0, 0, 0], (1.5, -0.5), (0.75, -0.25), (1.0, -0.3333)),
        ([1, 1, 1, 0, 0, 0, 0, 0], (1.2076, -0.7246), (0.625, -0.375), (0.7143, -0.4286)),
    ],
)
def test_hand_values(rewards: list[float], grouped, centred, left_out):
    for estimator, (good, bad) in (("group", grouped), ("center", centred), ("rloo", left_out)):
        expected = [good if reward else bad for reward in rewards]
        assert advantages(list(rewards), estimator) == pytest.approx(expected, abs=1e-4)


def test_the_batch_scale_uses_every_scored_rollout():
    """Std of [1, 0, 1, 0] is 0.57735; with one group it is the group's."""
    assert advantages([1, 0, 1, 0], "batch_std") == pytest.approx([0.8660, -0.8660] * 2, abs=1e-4)


def test_close_rewards_keep_their_difference():
    """In bfloat16 these would be [0, 0, 0, 2]."""
    assert advantages([1, 1, 1, 1.0078125]) == pytest.approx([-0.49987, -0.49987, -0.49987, 1.49962], abs=1e-4)
    assert advantages([0.7, 0.701, 0.702, 0.703]) == pytest.approx([-1.161, -0.387, 0.387, 1.161], abs=2e-3)


def test_rewards_that_differ_by_rounding_are_equal():
    assert advantages([0.1 + 0.2, 0.3, 0.3]) == [0.0, 0.0, 0.0]


def test_a_group_of_one_has_advantage_zero():
    """Not its raw reward, which would be no baseline at all."""
    assert advantages([1.0]) == [0.0]


def test_an_unscored_rollout_is_left_out_of_the_statistics():
    """As 0 it would have pulled the baseline of the others."""
    with_it, without = advantages([1, 0, None, 1]), advantages([1, 0, 1])
    assert with_it[2] is None
    assert [with_it[0], with_it[1], with_it[3]] == without


def test_turns_and_samples_do_not_vote():
    """Rewards 1 (2 samples), 0 (1), 1 (2), 0 (1) are +-0.866, not +0.645 and -1.291."""
    samples, scores = [], {}
    for number, reward in enumerate([1.0, 0.0, 1.0, 0.0]):
        spans = [span([1], [2]), span([5], [6])] if reward else [span([1], [2])]
        samples += build(Rollout(f"r{number}", task_id="t", spans=spans)).samples
        scores[f"r{number}"] = reward
    (group,) = group_samples(samples, scores)
    set_advantages([group], "group")
    assert list(group.advantages.values()) == pytest.approx([0.866, -0.866] * 2, abs=1e-3)


def test_groups_are_by_task_and_role_in_any_order():
    """2 tasks x 4 rollouts x 2 roles: four groups of four, whatever the order in the store."""
    samples, scores = [], {}
    for number in np.random.default_rng(0).permutation(8):
        spans = [span([1], [2], role="planner"), span([5], [6], role="coder")]
        samples += build(Rollout(f"r{number}", task_id=f"t{number % 2}", spans=spans)).samples
        scores[f"r{number}"] = float(number // 2 % 2)
    groups = group_samples(samples, scores)
    set_advantages(groups, "group")
    assert {(group.key, group.role, len(group.rewards)) for group in groups} == {
        (f"task t{task}", role, 4) for task in (0, 1) for role in ("planner", "coder")
    }
    for group in groups:
        for rollout, advantage in group.advantages.items():
            assert advantage == pytest.approx(0.866 if scores[rollout] else -0.866, abs=1e-3)


def test_without_task_ids_the_first_prompt_makes_the_group():
    rollouts = [Rollout(f"r{n}", spans=[span([1 + n % 2], [2]), span([1 + n % 2, 2, 3], [4 + n])]) for n in range(4)]
    samples = [sample for rollout in rollouts for sample in build(rollout).samples]
    groups = group_samples(samples, {f"r{n}": float(n) for n in range(4)})
    assert sorted(sorted(group.rewards) for group in groups) == [["r0", "r2"], ["r1", "r3"]]


def test_sft_takes_the_best_of_a_group_and_never_of_equals():
    """Four failures are no examples to follow; with a least reward of 0.5 a rollout alone is enough."""
    assert advantages([1, 0, 1, 0.5], "best") == [1.0, 0.0, 1.0, 0.0]
    assert advantages([0, 0, 0, 0], "best") == [0.0] * 4
    assert advantages([0.0], "best") == [0.0]
    (group,) = group_samples(build(Rollout("r0", task_id="t", spans=[span([1], [2])])).samples, {"r0": 0.5})
    set_advantages([group], "best", 0.5)
    assert group.advantages == {"r0": 1.0}


def test_whitening_counts_tokens():
    """REINFORCE++: rewards 1 and 0 over 1 and 3 trained tokens have mean 0.25 and variance 0.1875: 1.732 and -0.577."""
    samples = build(Rollout("r0", task_id="t", spans=[span([1], [2])])).samples
    samples += build(Rollout("r1", task_id="t", spans=[span([1], [3, 4, 5])])).samples
    groups = group_samples(samples, {"r0": 1.0, "r1": 0.0})
    set_advantages(groups, "whiten")
    assert groups[0].advantages == pytest.approx({"r0": 1.7320, "r1": -0.5773}, abs=1e-3)
    set_advantages(groups, "center_whiten")  # centred to 0.5 and -0.5 first: the same after whitening
    assert groups[0].advantages == pytest.approx({"r0": 1.7320, "r1": -0.5773}, abs=1e-3)
