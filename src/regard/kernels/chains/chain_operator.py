"""Chains as operators of scores and transitions, with exact derivatives of any order in both.

First derivatives are by kernels; where a second one may follow, under transforms and in what is compiled,
they are in torch (`chain_scan`). Nothing is saved but scores, transitions and the answer: each derivative
filters anew.

Transitions have the dtype of the scores and as many axes before (s, s) as the scores have before theirs;
such an axis may be 1, where rows share transitions.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from regard.kernels.chains.chain_scan import covariances
from regard.kernels.common.operator import like, make_operator, one_by_one, opaque

Two = tuple[Tensor, Tensor]


def which(transitions: Tensor, batch: torch.Size) -> Any:
    """For each row of the batch the number of its transitions: (rows,) int64."""
    lead = transitions.shape[:-2]
    return torch.arange(prod(lead)).view(lead).expand(batch).reshape(-1).numpy()


def summed(gradient: Tensor, transitions: Tensor) -> Tensor:
    """The gradient (..., s, s) that each row has, summed over the rows that share transitions."""
    shared = [k for k, size in enumerate(transitions.shape[:-2]) if size == 1]
    return gradient.sum(shared, keepdim=True) if shared else gradient


def covariances_of(scores: Tensor, transitions: Tensor, g: Tensor, h: Tensor, answer: Tensor) -> Two:
    """`covariances`, in float64 where there is one, for each row; NaN where the answer (..., k) is."""
    kind = torch.float64 if scores.is_cpu else scores.dtype
    T, h = (t.expand(*scores.shape[:-2], *t.shape[-2:]) for t in (transitions, h))
    found = covariances(*(t.to(kind) for t in (scores, T, g, h)))
    flaw = (answer.detach() * 0).sum(-1)[..., None, None]
    to_scores, to_T = (t.to(scores.dtype) + flaw for t in found)
    return to_scores, to_T


def _batched(
    info: Any, in_dims: Sequence[int | None], scores: Tensor, transitions: Tensor
) -> tuple[Two, int]:
    scores, transitions = (
        t.unsqueeze(0) if axis is None else t.movedim(axis, 0)
        for t, axis in zip((scores, transitions), in_dims, strict=False)
    )
    return (scores.expand(info.batch_size, *scores.shape[1:]), transitions), 0


def chain_operator(
    name: str,
    run: Callable[[Tensor, Tensor], Tensor],  # scores, transitions → answer, by kernel
    back_by_kernel: Callable[[Tensor, Tensor, Tensor, Tensor], Two],  # and answer, gradient → gradients
    back: Callable[[Tensor, Tensor, Tensor, Tensor], Two],  # the same in torch
    ahead: Callable[..., Tensor],  # scores, transitions, answer, their tangents → the answer's, in torch
    empty: Callable[[Tensor, Tensor], Tensor],  # a tensor like the answer
) -> Callable[[Tensor, Tensor], Tensor]:
    """Make the differentiable function from scores and transitions to the answer."""

    def contiguous(*tensors: Tensor) -> Two:
        to_scores, to_T = back_by_kernel(*tensors)
        return to_scores.contiguous(), to_T.contiguous()

    backward_operator = opaque(
        f"{name}_backward",
        "(Tensor scores, Tensor transitions, Tensor answer, Tensor gradient) -> (Tensor, Tensor)",
        contiguous,
        fake=lambda scores, transitions, *_: (like(scores), like(transitions)),
        vmap=one_by_one(lambda *inputs: backward_operator(*inputs)),
        flops=24,
    )

    def gradients(ctx: Any, gradient: Tensor) -> Two:
        scores, transitions, answer = ctx.saved_tensors
        by_torch = torch.is_grad_enabled() or not scores.is_cpu  # a second derivative may follow; no kernel
        found: Two = (back if by_torch else backward_operator)(scores, transitions, answer, gradient)
        return found

    def tangent(ctx: Any, *tangents: Tensor | None) -> Tensor:
        kept = ctx.saved_tensors
        given = (torch.zeros_like(t) if d is None else d for t, d in zip(kept, tangents, strict=False))
        return ahead(*kept, *given)

    return make_operator(
        name,
        "(Tensor scores, Tensor transitions) -> Tensor",
        run,
        saved=lambda inputs, answer: (*inputs, answer),
        backward=gradients,
        backward_by_kernel=back_by_kernel,
        jvp=tangent,
        fake=empty,
        batched=_batched,
        flops=24,
    )
