"""How turns share a return: by hand, and as unbiased gradients of a policy whose every outcome can be enumerated."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from rollouts import span

from agentlight_store import Rollout
from agentlight_trainer.advantages import Group, group_samples, set_advantages
from agentlight_trainer.credit import CREDITS, Credit, spread, turn_advantages
from agentlight_trainer.trajectory import build

Path = tuple[int, ...]  # the token that is sampled in each turn


def group_of(paths: list[Path], rewards: list[float], estimator: str = "rloo") -> Group:
    """Each turn samples one token; its prompt is what came before, with a 9 after each token."""
    samples = []
    for number, path in enumerate(paths):
        spans, prompt = [], [7]
        for turn, token in enumerate(path):
            spans.append(span(prompt, [token], started_at=float(turn), span_id=f"{number}.{turn}"))
            prompt = [*prompt, token, 9]
        samples += build(Rollout(f"r{number}", task_id="t", spans=spans)).samples
    (group,) = group_samples(samples, {f"r{number}": reward for number, reward in enumerate(rewards)})
    set_advantages([group], estimator)
    return group


def credited(paths: list[Path], rewards: list[float], credit: Credit) -> list[list[float]]:
    made = turn_advantages(group_of(paths, rewards), credit)
    return [[made[f"r{number}", turn] for turn in range(len(path))] for number, path in enumerate(paths)]


A, B = (1, 1, 1), (2,)  # three turns and one


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        (Credit("uniform"), [[1, 1, 1], [-1]]),
        (Credit("linear_decay"), [[0.4, 0.7, 1], [-0.4]]),
        (Credit("discount", gamma=0.5), [[0.25, 0.5, 1], [-0.25]]),
        (Credit("discount", gamma=0.5, gammas={"agent": 0.1}), [[0.01, 0.1, 1], [-0.01]]),
    ],
)
def test_a_step_back_earns_less(credit: Credit, expected: list[list[float]]):
    """Reward 1 after three turns, 0 after one; the baseline is the other's return at that turn."""
    for one, other in zip(credited([A, B], [1, 0], credit), expected, strict=True):
        assert one == pytest.approx(other)


def test_rewards_of_turns_count_from_their_turn_on():
    """Rewards 1, 0, 2 and 1: from turn 0 on 3 and 1; from turn 1 on 2, where the other has ended with 0."""
    credit = Credit("turn_rewards", turn_rewards={"r0": [1, 0, 2], "r1": [1]})
    assert credited([A, B], [3, 1], credit) == [[2, 2, 2], [-2]]
    halved = Credit("turn_rewards", gamma=0.5, turn_rewards={"r0": [1, 0, 2], "r1": [1]})
    assert credited([A, B], [3, 1], halved) == [[0.5, 1, 2], [-0.5]]


def test_the_value_of_a_fork_is_the_mean_reward_below_it():
    """Three begin with 1 and go on with 1, 2, 2 to rewards 1, 0, 0; one begins with 2 and gets 0.

    First turn of r0: it led to (1 + 0 + 0) / 3; the others have a mean of 0: +1/3. Second turn: it led to 1, the
    others at that fork have 0: +1. r1's second: its reply was sampled twice, (0 + 0) / 2; the others at the fork
    have (1 + 0) / 2: -1/2.
    """
    made = credited([(1, 1), (1, 2), (1, 2), (2, 1)], [1, 0, 0, 0], Credit("prefix_tree"))
    third = 1 / 3
    assert made[0] == pytest.approx([third, 1])
    assert made[1] == pytest.approx([0, -0.5])
    assert made[3] == pytest.approx([-third, -third])  # alone at its second turn: the turn before lends the others


def test_every_token_of_every_turn_carries_its_turns_advantage():
    """Turns of 2, 7 and 3 sampled tokens, with observations between them."""
    prompt, spans = [7], []
    for turn, length in enumerate((2, 7, 3)):
        completion = list(range(10, 10 + length))
        spans.append(span(prompt, completion, started_at=float(turn), span_id=str(turn)))
        prompt = [*prompt, *completion, *[8] * 50 * turn, 9]
    (sample,) = build(Rollout("r", task_id="t", spans=spans)).samples
    given = {("r", 0): 0.25, ("r", 1): 0.5, ("r", 2): 1.0}
    assert spread(sample, given) == [0.25] * 2 + [0.5] * 7 + [1.0] * 3


# -- an enumerable policy: at each of two turns a coin; the first may end the rollout ------------------------------

STOP = 0.3  # probability that the first turn samples token 1, after which the rollout ends
SECOND = 0.6  # probability that the second turn samples token 1
OUTCOMES: dict[Path, tuple[float, list[float]]] = {  # path -> probability, the reward of each turn
    (1,): (STOP, [0.3]),
    (2, 1): ((1 - STOP) * SECOND, [0.1, 1.0]),
    (2, 2): ((1 - STOP) * (1 - SECOND), [0.1, -0.5]),
}


def score(path: Path, turn: int) -> tuple[float, float]:
    """The gradient of the turn's log-probability by the two logits."""
    probability = (STOP, SECOND)[turn]
    value = 1 - probability if path[turn] == 1 else -probability
    return (value, 0.0) if turn == 0 else (0.0, value)


def expected_gradient(credit: str, number: int, **options: Any) -> tuple[float, float]:
    """Of the estimate from `number` rollouts, over every way in which they can come out."""
    total = [0.0, 0.0]
    for paths in itertools.product(OUTCOMES, repeat=number):
        weight = math.prod(OUTCOMES[path][0] for path in paths)
        rewards = [sum(OUTCOMES[path][1]) for path in paths]
        each = {f"r{index}": OUTCOMES[path][1] for index, path in enumerate(paths)}
        made = credited(list(paths), rewards, Credit(credit, turn_rewards=each, **options))
        for path, advantages in zip(paths, made, strict=True):
            for turn, advantage in enumerate(advantages):
                for axis, value in enumerate(score(path, turn)):
                    total[axis] += weight * advantage * value / number
    return total[0], total[1]


def true_gradient(weight) -> tuple[float, float]:
    """Of E[sum over turns of weight(steps to the end) x return x score], summed over the three outcomes."""
    total = [0.0, 0.0]
    for path, (probability, rewards) in OUTCOMES.items():
        for turn in range(len(path)):
            for axis, value in enumerate(score(path, turn)):
                total[axis] += probability * weight(len(path) - 1 - turn) * sum(rewards) * value
    return total[0], total[1]


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize(
    ("credit", "options", "weight"),
    [
        ("uniform", {}, lambda steps: 1),
        ("prefix_tree", {}, lambda steps: 1),
        ("turn_rewards", {}, lambda steps: 1),
        ("linear_decay", {}, lambda steps: 1 - 0.3 * steps),
        ("discount", {"gamma": 0.5}, lambda steps: 0.5**steps),
    ],
    ids=["uniform", "prefix_tree", "turn_rewards", "linear_decay", "discount"],
)
def test_every_credit_is_an_unbiased_policy_gradient(credit: str, options: dict, weight, number: int):
    """The mean over all outcomes of 2 and of 3 rollouts is the exact gradient of the (weighted) return: to 1e-12."""
    assert expected_gradient(credit, number, **options) == pytest.approx(true_gradient(weight), abs=1e-12)


def test_every_credit_is_tested():
    assert set(CREDITS) == {"uniform", "linear_decay", "discount", "prefix_tree", "turn_rewards"}
