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
    """Tokens in a row without a fork before them; `prefix` names earlier runs and how much of each is above."""

    length: int
    prefix: tuple[tuple[int, int], ...] = ()

    def mask(self, dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """Additive: all of the prefix, and of the run itself what is not later. None where nothing is hidden."""
        if self.length == 1:
            return None
        above = sum(number for _, number in self.prefix)
        hidden = torch.full((self.length, self.length), torch.finfo(dtype).min, dtype=dtype, device=device).triu(1)
        return torch.cat([hidden.new_zeros(self.length, above), hidden], 1)[None, None]


# The runs of the pack that is being computed; without them the attention is the ordinary one. A module's
# variable, because a model hands its own arguments down to its attention, but not all models hand down ours.
_runs: Sequence[Run] = ()
_masks: list[Tensor | None] = []


@contextmanager
def along(runs: Sequence[Run], dtype: torch.dtype, device: str) -> Iterator[None]:
    """Within it, every layer of a model loaded with `attn_implementation=NAME` attends along these runs."""
    global _runs, _masks
    outer = _runs, _masks
    _runs, _masks = runs, [run.mask(dtype, torch.device(device)) if run.prefix else None for run in runs]
    try:
        yield
    finally:
        _runs, _masks = outer


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
    made = []
    for run, mask, own_query, own_key, own_value in zip(_runs, _masks, queries, keys, values, strict=True):
        seen_keys = torch.cat([*(_first(keys[above], number) for above, number in run.prefix), own_key], 2)
        seen_values = torch.cat([*(_first(values[above], number) for above, number in run.prefix), own_value], 2)
        causal = not run.prefix and run.length > 1
        made.append(
            sdpa_attention_forward(module, own_query, seen_keys, seen_values, mask, dropout, scaling, is_causal=causal)[
                0
            ]
        )
    return torch.cat(made, 1), None


def _first(tensor: Tensor, number: int) -> Tensor:
    return tensor if tensor.shape[2] == number else tensor[:, :, :number]


AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
