"""The weights Gᵀr as an operator: linear in r, and its derivative is its transpose, g ↦ Gg.

The rows that share a length, or a mask, are done together; which these are is known only once the scores are
there, so the compiler and functorch see one opaque operator.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from regard.continuous.ridge import in_plane, on_line
from regard.kernels.common.operator import make_operator


def _run(x: Tensor, visible: Tensor, back: bool, number: int, ridge: float, shape: list[int]) -> Tensor:
    n, functions = visible.shape[-1], number ** (2 if shape else 1)
    answer = (*visible.shape[:-1], functions if back else n)
    if not visible.numel():
        return x.new_zeros(answer)
    rows = x.detach().reshape(-1, x.shape[-1]), visible.reshape(-1, n)
    done = in_plane(*rows, back, number, ridge, *shape) if shape else on_line(*rows, back, number, ridge)
    return done.reshape(answer)


def _fake(x: Tensor, visible: Tensor, back: bool, number: int, ridge: float, shape: list[int]) -> Tensor:
    last = number ** (2 if shape else 1) if back else visible.shape[-1]
    return x.new_empty(*visible.shape[:-1], last)


def _flops(x: tuple[int, ...], visible: tuple[int, ...], back: bool, number: int, *_: Any, **__: Any) -> int:
    return 2 * prod(visible) * number


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    (visible,), (back, *others) = ctx.saved_tensors, ctx.settings
    return _apply(gradient, visible, not back, *others), None


def _tangent(ctx: Any, tangent: Tensor, _: None) -> Tensor:
    (visible,) = ctx.saved_tensors
    return _apply(tangent, visible, *ctx.settings)


_apply: Callable[..., Tensor] = make_operator(
    "continuous_fit",
    "(Tensor x, Tensor visible, bool back, int number, float ridge, int[] shape) -> Tensor",
    _run,
    saved=lambda inputs, answer: inputs[1:2],
    backward=_gradients,
    jvp=_tangent,
    fake=_fake,
    flops=_flops,
)


def weights_of(
    r: Tensor, visible: Tensor, number: int, ridge: float, shape: tuple[int, int] | None
) -> Tensor:
    """Gᵀr (..., n) of r (..., N or N²) and the keys that may be looked at, (..., n)."""
    batch = torch.broadcast_shapes(r.shape[:-1], visible.shape[:-1])
    r, visible = r.double().expand(*batch, r.shape[-1]), visible.expand(*batch, visible.shape[-1])
    return _apply(r, visible, False, number, ridge, list(shape or ()))
