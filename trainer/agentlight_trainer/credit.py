"""How a rollout's return is shared among its turns.

Every scheme subtracts what other rollouts of the group got, so that no turn's baseline depends on what the policy did
in it or later: each is an unbiased policy gradient of its return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agentlight_trainer.advantages import Group
from agentlight_trainer.trajectory import Sample, Turn

DECAY = 0.3  # what linear_decay takes off a step back
TurnKey = tuple[str, int]  # rollout, number of the turn in it


@dataclass(frozen=True)
class Credit:
    """`gamma` is the discount a step back, `gammas` that of single roles."""

    scheme: str = "uniform"
    gamma: float = 1.0
    gammas: dict[str, float] = field(default_factory=dict)
    turn_rewards: dict[str, list[float]] = field(default_factory=dict)  # by rollout, one a turn


def turn_advantages(group: Group, credit: Credit) -> dict[TurnKey, float]:
    """The advantage of every turn of the group's scored rollouts; all 0 where the group has no signal."""
    turns = {
        (sample.rollout_id, turn.number): turn
        for sample in group.samples
        if sample.rollout_id in group.rewards
        for turn in sample.turns
    }
    if group.state != "signal":
        return dict.fromkeys(turns, 0.0)
    return CREDITS[credit.scheme](group, turns, credit)


def uniform(group: Group, turns: dict[TurnKey, Turn], credit: Credit) -> dict[TurnKey, float]:
    """Every turn gets the rollout's advantage."""
    return {key: group.advantages[key[0]] for key in turns}


def linear_decay(group: Group, turns: dict[TurnKey, Turn], credit: Credit) -> dict[TurnKey, float]:
    """A step back from the end earns 30 % less of the reward, four steps back nothing."""
    return _weighted(group, turns, lambda steps: max(0.0, 1 - DECAY * steps))


def discount(group: Group, turns: dict[TurnKey, Turn], credit: Credit) -> dict[TurnKey, float]:
    """A step back earns gamma times the reward; the gamma is that of the group's role."""
    gamma = credit.gammas.get(group.role, credit.gamma)
    return _weighted(group, turns, lambda steps: gamma**steps)


def _weighted(group: Group, turns: dict[TurnKey, Turn], weight: Callable[[int], float]) -> dict[TurnKey, float]:
    """Return of turn t: weight(steps to the end) x reward; baseline: the mean of that over the other rollouts.

    One that ended before t counts with its reward: its length is no deed of this rollout.
    """
    lengths = {rollout: turn.of for (rollout, _), turn in turns.items()}
    made = {}
    for rollout, number in turns:
        returns = {
            one: weight(max(0, lengths[one] - 1 - number)) * reward
            for one, reward in group.rewards.items()
            if one in lengths
        }
        own = returns.pop(rollout)
        made[rollout, number] = group.scale * (own - sum(returns.values()) / max(1, len(returns)))
    return made


def turn_rewards(group: Group, turns: dict[TurnKey, Turn], credit: Credit) -> dict[TurnKey, float]:
    """Return of turn t: the discounted sum of the turns' own rewards from t on; baseline: that of the others at t,
    0 for those that had ended. (A baseline for each turn's reward, summed, would pay for one more or less of them.)
    """
    gamma = credit.gammas.get(group.role, credit.gamma)

    def to_go(rollout: str, number: int) -> float:
        later = credit.turn_rewards.get(rollout, [])[number:]
        return sum(gamma**steps * reward for steps, reward in enumerate(later))

    rollouts = {rollout for rollout, _ in turns}
    made = {}
    for rollout, number in turns:
        others = [to_go(one, number) for one in rollouts if one != rollout]
        made[rollout, number] = group.scale * (to_go(rollout, number) - sum(others) / max(1, len(others)))
    return made


def prefix_tree(group: Group, turns: dict[TurnKey, Turn], credit: Credit) -> dict[TurnKey, float]:
    """Value of a fork = mean reward below it: a turn gains the value of where it led over that of where it began.

    Where it led: all rollouts that sampled the same tokens from the same prompt, itself included. Where it began: the
    others that came through that prompt; if none did, those of the nearest turn before it that shared one.
    """
    through: dict[bytes, set[str]] = {}
    paths: dict[TurnKey, tuple[bytes, bytes]] = {}
    for sample in group.samples:
        if sample.rollout_id not in group.rewards:
            continue
        for turn in sample.turns:
            began, led = sample.ids[: turn.start].tobytes(), sample.ids[: turn.stop].tobytes()
            paths[sample.rollout_id, turn.number] = began, led
            for place in (began, led):
                through.setdefault(place, set()).add(sample.rollout_id)
    made = {}
    for (rollout, number), (_, led) in paths.items():
        earlier = [paths[rollout, step][0] for step in range(number, -1, -1) if (rollout, step) in paths]
        others = next(
            (found for place in earlier if (found := through[place] - {rollout})), group.rewards.keys() - {rollout}
        )
        made[rollout, number] = group.scale * (_mean(group, through[led]) - _mean(group, others))
    return made


def _mean(group: Group, rollouts: set[str]) -> float:
    return sum(group.rewards[rollout] for rollout in rollouts) / max(1, len(rollouts))


CREDITS: dict[str, Callable[[Group, dict[TurnKey, Turn], Credit], dict[TurnKey, float]]] = {
    "uniform": uniform,
    "linear_decay": linear_decay,
    "discount": discount,
    "prefix_tree": prefix_tree,
    "turn_rewards": turn_rewards,
}


def spread(sample: Sample, advantages: dict[TurnKey, float]) -> list[float]:
    """The advantage of each of the sample's trained tokens, in order."""
    return [
        advantages[sample.rollout_id, turn.number]
        for turn in sample.turns
        for _ in range(int(sample.loss_mask[turn.start : turn.stop].sum()))
    ]
