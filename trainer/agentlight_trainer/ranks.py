"""Several processes under torchrun: each computes its share of a step's packs, and their gradients are added up.

The weight of a token comes from the whole step, so the sum over ranks is the gradient that one process would have.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Item = TypeVar("Item")


@contextmanager
def joined():
    """Within it the ranks of torchrun know each other; alone, nothing is done."""
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) < 2:
        yield
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    try:
        yield
    finally:
        dist.destroy_process_group()


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Who writes files and talks; known before and after the ranks are joined."""
    return int(os.environ.get("RANK", "0")) == 0


def meet() -> None:
    """Wait for all ranks."""
    if dist.is_initialized():
        dist.barrier()


def mine(items: Sequence[Item]) -> Sequence[Item]:
    """This rank's share."""
    return items[dist.get_rank() :: world()] if dist.is_initialized() else items


def add_up(tensors: Iterable[Tensor | None], like: Iterable[Tensor]) -> list[Tensor]:
    """Each tensor summed over the ranks; None is zero here (this rank had no part in it)."""
    made = []
    for tensor, shape in zip(tensors, like, strict=True):
        total = torch.zeros_like(shape) if tensor is None else tensor
        if dist.is_initialized():
            dist.all_reduce(total)
        made.append(total)
    return made


def gathered(items: list[Any]) -> list[Any]:
    """The lists of all ranks, interleaved as `mine` has dealt them out."""
    if not dist.is_initialized():
        return items
    parts: list[Any] = [None] * world()
    dist.all_gather_object(parts, items)
    return [part[row] for row in range(max(map(len, parts))) for part in parts if row < len(part)]


def totals(values: dict[str, float]) -> dict[str, float]:
    """Summed over the ranks, which may know different names."""
    if not dist.is_initialized():
        return values
    parts: list[Any] = [None] * world()
    dist.all_gather_object(parts, values)
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) for name in names}
