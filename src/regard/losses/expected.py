"""The expected loss: the mean over a batch, with gradients through the samples of hard attention.

    loss = expected_loss(F.cross_entropy(model(x), y, reduction="none"))

Its value is losses.mean(). For every sample of `Reinforce` that the losses depend on, its gradient has the
term λᵣ (r − b) ∇log p(s) + λₑ ∇H with reward r = −loss. The samples are found by walking the autograd graph
back from the losses, so there is no state to reset, and for a model without sampling it is the plain mean:
the line is the same for softmax. For `Exact` it takes a function, and runs it for every possible choice.

What is differentiated is  loss · exp(ℓ − ⊥ℓ) + b (exp(ℓ − ⊥ℓ) − 1) − λₑH  with ℓ = λᵣ log p(s) and ⊥ℓ its
detached value: the factor is 1 and its gradient ∇ℓ. So the second derivative is unbiased too.

Everything that depends on a sample belongs in the losses: a term added afterwards lacks its gradient through
ℓ.

Williams (1992); Foerster et al. (2018), "DiCE", arXiv:1802.05098 (the factor).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from regard.core.compiling import untraced
from regard.core.errors import ShapeError
from regard.core.shapes import check_float, widened
from regard.maps.estimators.estimator import Draw, Note
from regard.maps.estimators.exact import marginal


def expected_loss(losses: Tensor | Callable[[], Tensor]) -> Tensor:
    """The mean () of losses (b,), one per example, to call backward on; or of the losses (b,) of a function.

    Samples with scores (b, ..., n) belong to the examples; with (1, ..., n), to all of them.
    """
    if not isinstance(losses, Tensor) and callable(losses):
        compute = losses
        return expected_loss(marginal(lambda: _checked(compute())))
    losses = _checked(losses)
    draws = _draws(losses) if torch.is_grad_enabled() else []
    if not draws:
        return losses.mean()
    exponent, rest = losses.new_zeros(()), losses.new_zeros(())
    for node in draws:
        theta, keys = node.saved_tensors
        log_p, bonus = node.note.estimator.terms(theta, keys, node.note)
        if len(log_p) not in (1, len(losses)):
            raise ShapeError(
                f"losses must be ({len(log_p)},), one for each example of the scores "
                f"{tuple(theta.shape)} that keys were drawn with; got {tuple(losses.shape)}."
            )
        exponent = exponent + log_p
        rest = rest - bonus
        if node.note.baseline is not None:
            rest = rest + node.note.baseline * (_one(log_p) - 1)
    surrogate = (widened(losses) * _one(exponent) + rest).mean()
    for estimator in {node.note.estimator for node in draws}:
        estimator.observe(-losses.detach().mean())
    apply: Callable[..., Tensor] = _Claimed.apply
    return apply(surrogate, losses.detach().mean(), [node.note for node in draws])


untraced(expected_loss)  # compiled code has no autograd graph to walk


def _checked(losses: Tensor) -> Tensor:
    check_float("losses", losses)
    if losses.dim() != 1:
        raise ShapeError(
            f"losses must be (b,), one for each example; got {tuple(losses.shape)}. "
            'Use reduction="none", and sum over the axes that are not examples.'
        )
    if torch._C._are_functorch_transforms_active():
        raise NotImplementedError(
            "expected_loss walks autograd's graph, which torch.func (vmap, grad, …) does not build. "
            "Use backward() or torch.autograd.grad."
        )
    return losses


def _draws(losses: Tensor) -> list[Any]:
    """The `Draw` nodes that losses depend on, each once."""
    found, seen, ahead = [], set(), [losses.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, Draw._backward_cls):
            found.append(node)
        ahead.extend(before for before, _ in node.next_functions)
    return found


def _one(exponent: Tensor) -> Tensor:
    """1, with the gradient of the exponent."""
    return (exponent - exponent.detach()).exp()


class _Claimed(Function):
    """A value with the gradient of the surrogate; backward marks the samples as accounted for."""

    @staticmethod
    def forward(ctx: Any, surrogate: Tensor, value: Tensor, notes: list[Note]) -> Tensor:
        ctx.notes = notes
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        for note in ctx.notes:
            note.accept()
        return gradient, None, None
