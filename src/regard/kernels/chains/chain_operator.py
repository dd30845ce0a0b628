"""Chains as operators of scores and transitions, with exact derivatives of any order in both.

Made as `operators` makes the maps of scores alone: an opaque operator inside an `autograd.Function`. First
derivatives are by kernels; where a second one may follow, under transforms and in what is compiled, they are
in torch (`chain_scan`). Nothing is saved but scores, transitions and the answer: all of these filter anew.

Transitions have the dtype of the scores and as many axes before (s, s) as the scores have before theirs;
such an axis may be 1, where rows share transitions.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.utils.flop_counter import register_flop_formula

from regard.kernels.chains.chain_scan import covariances
from regard.kernels.common.operator import is_plain, refuse_nested_forward_mode

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


def chain_operator(
    name: str,
    run: Callable[[Tensor, Tensor], Tensor],  # scores, transitions → answer, by kernel
    back_by_kernel: Callable[[Tensor, Tensor, Tensor, Tensor], Two],  # and answer, gradient → gradients
    back: Callable[[Tensor, Tensor, Tensor, Tensor], Two],  # the same in torch
    ahead: Callable[..., Tensor],  # scores, transitions, answer, their tangents → the answer's, in torch
    empty: Callable[[Tensor, Tensor], Tensor],  # a tensor like the answer
) -> Callable[[Tensor, Tensor], Tensor]:
    """Make the differentiable function from scores and transitions to the answer."""

    def batched(info: Any, in_dims: tuple[int | None, int | None], *inputs: Tensor) -> tuple[Tensor, int]:
        scores, transitions = (
            t.unsqueeze(0) if axis is None else t.movedim(axis, 0)
            for t, axis in zip(inputs, in_dims, strict=True)
        )
        return apply(scores.expand(info.batch_size, *scores.shape[1:]), transitions), 0

    opaque = torch.library.custom_op(
        f"regard::{name}", run, mutates_args=(), schema="(Tensor scores, Tensor transitions) -> Tensor"
    )
    opaque.register_fake(empty)
    opaque.register_vmap(batched)
    operator = getattr(torch.ops.regard, name)
    register_flop_formula(operator)(lambda shape, *_, **__: 24 * prod(shape))

    class Compilable(Function):
        @staticmethod
        def forward(scores: Tensor, transitions: Tensor) -> Tensor:
            plain = is_plain(scores) and is_plain(transitions)
            return run(scores, transitions) if plain else operator(scores, transitions)

        @staticmethod
        def setup_context(ctx: Any, inputs: Two, output: Tensor) -> None:
            ctx.save_for_backward(*inputs, output)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Two:
            scores, transitions, answer = ctx.saved_tensors
            by_kernel = all(map(is_plain, (scores, transitions, answer, gradient)))
            by_kernel = by_kernel and not torch.is_grad_enabled()
            return (back_by_kernel if by_kernel else back)(scores, transitions, answer, gradient)

        vmap = staticmethod(batched)

    class Differentiable(Compilable):  # Dynamo refuses a Function that has the jvp of forward mode
        @staticmethod
        def setup_context(ctx: Any, inputs: Two, output: Tensor) -> None:
            Compilable.setup_context(ctx, inputs, output)
            ctx.save_for_forward(*inputs, output)

        @staticmethod
        def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
            saved = ctx.saved_tensors
            given = (torch.zeros_like(t) if d is None else d for t, d in zip(saved, tangents, strict=False))
            return ahead(*saved, *given)

    apply_plainly: Callable[..., Tensor] = super(Function, Differentiable).apply

    def apply(scores: Tensor, transitions: Tensor) -> Tensor:
        learned = (scores.requires_grad or transitions.requires_grad) and torch.is_grad_enabled()
        differentiated = learned or forward_ad._current_level >= 0
        function: Callable[..., Tensor]
        if torch.compiler.is_compiling():
            function = Compilable.apply if differentiated else operator
        elif is_plain(scores) and is_plain(transitions):
            function = apply_plainly if differentiated else run
        else:
            refuse_nested_forward_mode()
            function = Differentiable.apply
        return function(scores, transitions)

    return apply
