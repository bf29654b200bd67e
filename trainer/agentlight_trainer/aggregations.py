"""How the tokens of a step weigh against each other: the denominator of the loss, from the whole step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence


def token_mean(tokens_N: Sequence[int], rollouts_N: Sequence[str], _length: int) -> list[float]:
    """Every trained token of the step weighs the same (DAPO's)."""
    return [1 / sum(tokens_N)] * len(tokens_N)


def rollout_mean(tokens_N: Sequence[int], rollouts_N: Sequence[str], _length: int) -> list[float]:
    """Every rollout weighs the same, however many samples and tokens it has."""
    total = Counter[str]()
    for tokens, rollout in zip(tokens_N, rollouts_N, strict=True):
        total[rollout] += tokens
    return [1 / (len(total) * total[rollout]) for rollout in rollouts_N]


def sequence_mean(tokens_N: Sequence[int], rollouts_N: Sequence[str], _length: int) -> list[float]:
    """Every sample weighs the same (the GRPO paper)."""
    return [1 / (len(tokens_N) * tokens) for tokens in tokens_N]


def constant(tokens_N: Sequence[int], rollouts_N: Sequence[str], length: int) -> list[float]:
    """A token weighs 1 / (samples x a length that is fixed for the run) (Dr.GRPO)."""
    return [1 / (len(tokens_N) * length)] * len(tokens_N)


# The weight of one token of each of a step's N samples, from the whole step: never from a pack or a micro-batch.
AGGREGATIONS: dict[str, Callable[[Sequence[int], Sequence[str], int], list[float]]] = {
    "token_mean": token_mean,
    "rollout_mean": rollout_mean,
    "sequence_mean": sequence_mean,
    "constant": constant,
}
