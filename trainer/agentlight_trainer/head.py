"""Log-probs of target tokens from hidden states, a chunk at a time, so that no step ever holds all its logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute

CHUNK = 512  # tokens whose logits exist at the same time


def target_logprobs(head: nn.Module, hidden_TD: Tensor, targets_T: Tensor, temperatures_T: Tensor) -> Tensor:
    """In float32 from the head's product on: rounding logits of about 20 to bfloat16 costs 0.03 of a log-prob."""
    if type(head) is not nn.Linear or head.bias is not None:
        return _chunked(lambda *part: _plain(head, *part), hidden_TD, targets_T, temperatures_T)
    weight_VD = head.weight.float()
    if weight_VD.requires_grad:
        return _chunked(lambda *part: _linear(weight_VD, *part), hidden_TD, targets_T, temperatures_T)
    chunks = zip(*(part.split(CHUNK) for part in (hidden_TD.float() / temperatures_T[:, None], targets_T)), strict=True)
    return torch.cat([_Frozen.apply(hidden, targets, weight_VD) for hidden, targets in chunks])


class _Frozen(torch.autograd.Function):
    """With a head that is not trained the gradient for the hidden state is known in the forward already:
    W[target] - sum over v of p(v) W[v]. That spares the backward both the logits and their second computation.
    """

    @staticmethod
    def forward(ctx: Any, hidden_TD: Tensor, targets_T: Tensor, weight_VD: Tensor) -> Tensor:
        logits_TV = hidden_TD @ weight_VD.T
        logits_TV -= logits_TV.amax(1, keepdim=True)
        chosen_T = logits_TV.gather(1, targets_T[:, None])[:, 0]
        odds_TV = logits_TV.exp_()
        total_T = odds_TV.sum(1)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(weight_VD[targets_T] - (odds_TV @ weight_VD) / total_T[:, None])
        return chosen_T - total_T.log()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (direction_TD,) = ctx.saved_tensors
        return direction_TD * gradients[0][:, None], None, None


def _chunked(score: Any, *parts: Tensor) -> Tensor:
    """Logits are thrown away and made again in the backward."""
    chunks = zip(*(part.split(CHUNK) for part in parts), strict=True)
    return torch.cat([recompute(score, *chunk, use_reentrant=False) for chunk in chunks])  # type: ignore[misc] # tensors


def _linear(weight_VD: Tensor, hidden_TD: Tensor, targets_T: Tensor, temperatures_T: Tensor) -> Tensor:
    return _chosen((hidden_TD.float() / temperatures_T[:, None]) @ weight_VD.T, targets_T)


def _plain(head: nn.Module, hidden_TD: Tensor, targets_T: Tensor, temperatures_T: Tensor) -> Tensor:
    return _chosen(head(hidden_TD).float() / temperatures_T[:, None], targets_T)


def _chosen(logits_TV: Tensor, targets_T: Tensor) -> Tensor:
    return logits_TV.gather(1, targets_T[:, None])[:, 0] - logits_TV.logsumexp(1)
