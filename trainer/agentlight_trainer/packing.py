"""Samples -> packs: token sequences merged into a prefix tree, so that what they share is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentlight_trainer.attention import Run
from agentlight_trainer.trajectory import Sample


@dataclass
class Pack:
    """A forest of tokens (N nodes, parents before children) and the T trained tokens that hang on it.

    Two rollouts that sampled the same tokens share nodes, and still each has entries of its own among the T:
    `samples_T` says whose advantage an entry earns, `places_T` where it sits in that sample.
    """

    samples: list[Sample]
    ids_N: Tensor
    positions_N: Tensor
    runs: list[Run]  # the N in order, cut where a sequence leaves another
    sources_T: Tensor  # the node whose hidden state predicts the token
    targets_T: Tensor
    temperatures_T: Tensor
    behaviour_logprobs_T: Tensor
    samples_T: Tensor
    places_T: np.ndarray
    anchor_logprobs_T: Tensor | None = None  # by the weights at the start, set by the pre-flight

    @property
    def tokens(self) -> int:
        return len(self.ids_N)


class _Tree:
    def __init__(self) -> None:
        self.ids: list[int] = []
        self.depths: list[int] = []
        self.children: dict[tuple[int, int], int] = {}
        self.segments: list[tuple[int, dict[int, int]]] = []  # new nodes of a sequence, and how much of others is above
        self.segment_of: list[int] = []  # a node's

    def insert(self, ids: Sequence[int]) -> list[int]:
        """The node of each id, shared as far as the sequence agrees with an earlier one."""
        nodes, node = [], -1
        for depth, token in enumerate(ids):
            child = self.children.get((node, token))
            if child is None:
                child = self.children[node, token] = len(self.ids)
                self.ids.append(token)
                self.depths.append(depth)
                self.segment_of.append(len(self.segments))
            nodes.append(child)
            node = child
        shared = sum(self.segment_of[node] < len(self.segments) for node in nodes)
        if shared < len(nodes):
            above = Counter(self.segment_of[node] for node in nodes[:shared])
            self.segments.append((len(nodes) - shared, dict(above)))
        return nodes

    def runs(self) -> list[Run]:
        """The segments, cut wherever another sequence leaves one: so what is above a run is whole runs."""
        ends = [{length} for length, _ in self.segments]
        for _, above in self.segments:
            for segment, number in above.items():
                ends[segment].add(number)
        made: list[Run] = []
        pieces: list[list[tuple[int, int]]] = []  # of a segment: where a piece ends in it, and its run
        for (_, above), cuts in zip(self.segments, ends, strict=True):
            prefix = [run for one, number in above.items() for end, run in pieces[one] if end <= number]
            own: list[tuple[int, int]] = []
            start = 0
            for end in sorted(cuts):
                own.append((end, len(made)))
                made.append(Run(end - start, tuple(prefix)))
                prefix.append(len(made) - 1)
                start = end
            pieces.append(own)
        return made


def pack_tree(samples: Sequence[Sample], max_tokens: int) -> list[Pack]:
    """Neighbours in lexicographic order share most, so filling packs in that order keeps families together."""
    ordered = sorted(samples, key=lambda sample: sample.ids.tolist())
    packs, start, previous, total = [], 0, np.zeros(0, np.int64), 0
    for number, sample in enumerate(ordered):
        inner = _needed(sample)
        new = len(inner) - _common(previous, inner)
        if number > start and total + new > max_tokens:
            packs.append(_pack(ordered[start:number]))
            start, total, new = number, 0, len(inner)
        total += new
        previous = inner
    if ordered:
        packs.append(_pack(ordered[start:]))
    return packs


def pack_rows(samples: Sequence[Sample], _max_tokens: int) -> list[Pack]:
    """Every sample alone: the plain computation, for models on which the tree does not hold."""
    return [_pack([sample]) for sample in samples]


def _needed(sample: Sample) -> np.ndarray:
    """The ids whose hidden states are needed: up to the one before the last trained token."""
    return sample.ids[: sample.trained[-1]]


def _common(one: np.ndarray, other: np.ndarray) -> int:
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length


def _pack(samples: Sequence[Sample]) -> Pack:
    tree = _Tree()
    sources, targets, temperatures, behaviour, owners, places = [], [], [], [], [], []
    for number, sample in enumerate(samples):
        trained = sample.trained
        nodes = np.array(tree.insert(_needed(sample).tolist()))
        sources.append(nodes[trained - 1])  # the token at t is predicted by the hidden state at t - 1
        targets.append(sample.ids[trained])
        temperatures.append(sample.temperatures[trained])
        behaviour.append(sample.behaviour_logprobs[trained])
        owners.append(np.full(len(trained), number))
        places.append(trained)

    def joined(parts: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts))

    return Pack(
        samples=list(samples),
        ids_N=torch.tensor(tree.ids),
        positions_N=torch.tensor(tree.depths),
        runs=tree.runs(),
        sources_T=joined(sources),
        targets_T=joined(targets),
        temperatures_T=joined(temperatures),
        behaviour_logprobs_T=joined(behaviour),
        samples_T=joined(owners),
        places_T=np.concatenate(places),
    )
