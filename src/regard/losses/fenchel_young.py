"""Fenchel–Young losses: the loss that belongs to each map, so that output layers can be sparse too.

    L(θ; y) = Ω*(θ) + Ω(y) − θᵀy,      Ω*(θ) = max_{p ∈ Δⁿ} pᵀθ − Ω(p),      Ω = −H_α

with H_α the Tsallis entropy. L ≥ 0, and 0 only if π(θ) = y. By Danskin's theorem ∇Ω*(θ) is the maximiser
π(θ), so the gradient is π(θ) − y and the Hessian is the Jacobian of the map; autograd gets exactly these.

α = 1 is softmax: cross-entropy, and for a distribution y the Kullback–Leibler divergence KL(y ‖ π(θ)). For α
> 1 there is a margin: the loss of class y is exactly 0 as soon as θ_y ≥ 1/(α − 1) + θⱼ for all other j.

Blondel, Martins & Niculae (2020), "Learning with Fenchel-Young Losses", arXiv:1901.02324;
Peters, Niculae & Martins (2019), "Sparse Sequence-to-Sequence Models", arXiv:1905.05702 (entmax).
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function

from regard.core.errors import DeviceError, DtypeError, ShapeError
from regard.core.shapes import check, check_float, check_together, widened
from regard.kernels.common.operator import is_plain, refuse_nested_forward_mode
from regard.maps.entmax import entmax
from regard.maps.entropies import tsallis
from regard.maps.softmax import softmax
from regard.maps.sparsemax import sparsemax

Reduction = Literal["mean", "sum", "none"]


def softmax_loss(
    scores: Tensor, target: Tensor, *, reduction: Reduction = "mean", ignore_index: int = -100
) -> Tensor:
    """Softmax's loss of scores (..., n) for classes (...) or distributions (..., n): (...), reduced ()."""
    return _loss(scores, target, 1.0, reduction, ignore_index)


def sparsemax_loss(
    scores: Tensor, target: Tensor, *, reduction: Reduction = "mean", ignore_index: int = -100
) -> Tensor:
    """Sparsemax's loss of scores (..., n) for classes (...) or distributions (..., n): (...), reduced ()."""
    return _loss(scores, target, 2.0, reduction, ignore_index)


def entmax_loss(
    scores: Tensor,
    target: Tensor,
    alpha: float = 1.5,
    *,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """α-entmax's loss of scores (..., n) for classes (...) or distributions (..., n): (...), reduced ().

    Rows whose class is `ignore_index` have loss 0 and do not count in the mean; the mean over no rows is 0.
    """
    return _loss(scores, target, alpha, reduction, ignore_index)


class _Compilable(Function):
    """Ω*(θ), its value computed outside, with gradient π(θ), whose own gradient is that of the map."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, scores: Tensor, weights: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        (weights,) = ctx.saved_tensors
        return None, gradient.unsqueeze(-1) * weights, None


class _Differentiable(_Compilable):  # Dynamo refuses a Function that has the jvp of forward mode
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])
        ctx.save_for_forward(inputs[2])

    @staticmethod
    def jvp(ctx: Any, value: Any, tangent: Tensor, weights: Any) -> Tensor:
        (weights,) = ctx.saved_tensors
        along: Tensor = torch.linalg.vecdot(tangent, weights)
        return along


def _entropy(p: Tensor, alpha: float) -> Tensor:
    """H_α of weights (..., n): (...)."""
    if alpha < 1.25:
        return tsallis(p, alpha)  # the difference below would cancel
    power = p * p.sqrt() if alpha == 1.5 else p.pow(alpha)
    return (p - power).sum(-1) / (alpha * (alpha - 1))


def _conjugate(theta: Tensor, alpha: float) -> Tensor:
    """Ω*(θ) of scores (..., n) that are at most 0: (...)."""
    weights = softmax(theta) if alpha == 1 else sparsemax(theta) if alpha == 2 else entmax(theta, alpha)
    p, finite = weights.detach(), theta.detach().clamp(min=torch.finfo(theta.dtype).min)
    value = finite.logsumexp(-1) if alpha == 1 else torch.linalg.vecdot(p, finite) + _entropy(p, alpha)
    compiling = torch.compiler.is_compiling()
    if not compiling:
        refuse_nested_forward_mode()
    conjugate: Callable[..., Tensor] = _Compilable.apply if compiling else _Differentiable.apply
    return conjugate(value, theta, weights)


def _loss(scores: Tensor, target: Tensor, alpha: float, reduction: str, ignore_index: int) -> Tensor:
    _check(scores, target, alpha, reduction, ignore_index)
    theta = widened(scores)
    if theta.shape[-1]:
        top = theta.detach().amax(-1, keepdim=True)  # (..., 1)
        theta = theta - torch.where(top == -torch.inf, 0, top)  # the same loss, without cancellation
    if target.is_floating_point():
        y = widened(target)
        reached = torch.where((y == 0) & (theta == -torch.inf), 0, theta)
        loss = _conjugate(theta, alpha) - tsallis(y, alpha) - (reached * y).sum(-1)
        counted = loss.new_ones(()).expand(loss.shape)
    else:
        ignored = target == ignore_index
        y = torch.where(ignored, 0, target).long().unsqueeze(-1)  # (..., 1)
        loss = torch.where(ignored, 0, _conjugate(theta, alpha) - theta.gather(-1, y).squeeze(-1))
        counted = (~ignored).to(loss.dtype)
    loss = loss + (-loss.detach()).clamp(min=0)  # rounding must not make it negative
    if reduction != "none":
        loss = loss.sum()
    if reduction == "mean":
        loss = loss / counted.sum().clamp(min=1)
    return loss.to(scores.dtype)


def _check(scores: Tensor, target: Tensor, alpha: float, reduction: str, ignore_index: int) -> None:
    check_float("scores", scores)
    check("scores", scores, "... n")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'reduction must be "mean", "sum" or "none"; got {reduction!r}.')
    if not isinstance(alpha, int | float):
        raise TypeError(f"alpha must be a number; got {type(alpha).__name__}. Use alpha.item() for a tensor.")
    n = scores.shape[-1]
    if target.is_floating_point():
        check_together(scores=scores, target=target)
    elif target.dtype == torch.bool or target.is_complex():
        raise DtypeError(f"target must be classes (integers) or distributions (floats); got {target.dtype}.")
    elif target.device != scores.device:
        raise DeviceError(
            f"target must be on {scores.device} as scores is; got {target.device}. "
            "Use target.to(scores.device)."
        )
    wanted = scores.shape if target.is_floating_point() else scores.shape[:-1]
    if target.shape != wanted:
        raise ShapeError(
            f"target must be classes {tuple(scores.shape[:-1])} or distributions {tuple(scores.shape)} "
            f"for scores {tuple(scores.shape)}; got {target.dtype} {tuple(target.shape)}."
        )
    if not target.is_floating_point() and is_plain(target):
        wrong = target[((target < 0) | (target >= n)) & (target != ignore_index)]
        if wrong.numel():
            raise ValueError(
                f"target must be classes from 0 to {n - 1}, or ignore_index={ignore_index}; "
                f"got {wrong[0].item()}."
            )
