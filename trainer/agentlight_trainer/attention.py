"""Attention along a prefix tree: every run of tokens meets its ancestors only, never the rest of the pack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "agentlight_tree"


@dataclass(frozen=True)
class Run:
    """Tokens in a row without a fork among them; `prefix` names the earlier runs above, each of them whole."""

    length: int
    prefix: tuple[int, ...] = ()


@dataclass(frozen=True)
class Family:
    """The runs below one prefix, computed together: each sees all of the prefix, and of the family itself alone."""

    members: tuple[int, ...]
    prefix: tuple[int, ...]
    mask: Tensor | None  # additive; None where causality says it all


def families(runs: Sequence[Run], dtype: torch.dtype, device: torch.device) -> list[Family]:
    """In the order in which their first members stand."""
    members: dict[tuple[int, ...], list[int]] = {}
    for number, run in enumerate(runs):
        members.setdefault(run.prefix, []).append(number)
    made = []
    for prefix, found in members.items():
        plain = not prefix and len(found) == 1
        above = sum(runs[number].length for number in prefix)
        mask = None if plain else _mask(above, [runs[number].length for number in found], dtype, device)
        made.append(Family(tuple(found), prefix, mask))
    return made


def _mask(above: int, lengths: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """All of the prefix, and of each member what is not later in itself."""
    hidden = torch.finfo(dtype).min
    own = torch.full((sum(lengths), sum(lengths)), hidden, dtype=dtype, device=device)
    start = 0
    for length in lengths:
        own[start : start + length, start : start + length] = torch.full_like(own[:length, :length], hidden).triu(1)
        start += length
    return torch.cat([own.new_zeros(sum(lengths), above), own], 1)[None, None]


# The runs of the pack that is being computed; without them the attention is the ordinary one. A module's
# variable, because a model hands its own arguments down to its attention, but not all models hand down ours.
_runs: Sequence[Run] = ()
_families: Sequence[Family] = ()


@contextmanager
def along(runs: Sequence[Run], dtype: torch.dtype, device: str) -> Iterator[None]:
    """Within it, every layer of a model loaded with `attn_implementation=NAME` attends along these runs."""
    global _runs, _families
    outer = _runs, _families
    _runs, _families = runs, _families if runs is _runs else families(runs, dtype, torch.device(device))
    try:
        yield
    finally:
        _runs, _families = outer


def tree_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **rest: object,
) -> tuple[Tensor, None]:
    """The attention function of one layer, as transformers calls it: B x heads x tokens x size."""
    if not _runs:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **rest)  # type: ignore[arg-type] # passed on
    lengths = [run.length for run in _runs]
    # split() and not slices: the backward of a slice fills a tensor of the whole pack's size with zeros.
    queries, keys, values = (tensor.split(lengths, 2) for tensor in (query, key, value))
    made: list[Tensor] = [query] * len(lengths)
    for family in _families:
        seen = [*family.prefix, *family.members]
        (together, _) = sdpa_attention_forward(
            module, _joined(queries, family.members), _joined(keys, seen), _joined(values, seen), family.mask, dropout,
            scaling, is_causal=family.mask is None,
        )  # fmt: skip
        pieces = together.split([lengths[number] for number in family.members], 1)
        for number, piece in zip(family.members, pieces, strict=True):
            made[number] = piece
    return torch.cat(made, 1), None


def _joined(tensors: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    return tensors[numbers[0]] if len(numbers) == 1 else torch.cat([tensors[number] for number in numbers], 2)


AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
