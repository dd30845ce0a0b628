"""The weights Gᵀr as an operator: linear in r, and its derivative is itself turned round, g ↦ Gg.

The rows that share a length, or a mask, are done together; which these are is known only once the scores are
there, so the compiler and functorch see one opaque operator, as in `regard.kernels.operators`.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.utils.flop_counter import register_flop_formula

from regard.continuous.fit import in_plane, on_line
from regard.kernels.common.operator import is_plain, refuse_nested_forward_mode


def _run(x: Tensor, visible: Tensor, back: bool, number: int, ridge: float, shape: list[int]) -> Tensor:
    n, functions = visible.shape[-1], number ** (2 if shape else 1)
    answer = (*visible.shape[:-1], functions if back else n)
    if not visible.numel():
        return x.new_zeros(answer)
    rows = x.detach().reshape(-1, x.shape[-1]), visible.reshape(-1, n)
    done = in_plane(*rows, back, number, ridge, *shape) if shape else on_line(*rows, back, number, ridge)
    return done.reshape(answer)


def _batched(
    info: Any, in_dims: tuple[int | None, ...], x: Tensor, visible: Tensor, *settings: Any
) -> tuple[Tensor, int]:
    size = info.batch_size
    front = (
        t.unsqueeze(0).expand(size, *t.shape) if dim is None else t.movedim(dim, 0)
        for t, dim in zip((x, visible), in_dims, strict=False)
    )
    return _apply(*front, *settings), 0


_opaque = torch.library.custom_op(
    "regard::continuous_fit",
    _run,
    mutates_args=(),
    schema="(Tensor x, Tensor visible, bool back, int number, float ridge, int[] shape) -> Tensor",
)
_opaque.register_vmap(_batched)


@_opaque.register_fake
def _(x: Tensor, visible: Tensor, back: bool, number: int, ridge: float, shape: list[int]) -> Tensor:
    last = number ** (2 if shape else 1) if back else visible.shape[-1]
    return x.new_empty(*visible.shape[:-1], last)


@register_flop_formula(torch.ops.regard.continuous_fit)
def _(x: tuple[int, ...], visible: tuple[int, ...], back: bool, number: int, *_: Any, **__: Any) -> int:
    return 2 * prod(visible) * number


class _Compilable(Function):
    @staticmethod
    def forward(x: Tensor, visible: Tensor, *settings: Any) -> Tensor:
        return (_run if is_plain(x) and is_plain(visible) else torch.ops.regard.continuous_fit)(
            x, visible, *settings
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.settings = inputs[2:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (visible,) = ctx.saved_tensors
        back, *others = ctx.settings
        return _apply(gradient, visible, not back, *others), None, None, None, None, None

    vmap = staticmethod(_batched)


class _Differentiable(_Compilable):  # Dynamo refuses a Function that has the jvp of forward mode
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _Compilable.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        (visible,) = ctx.saved_tensors
        return _apply(tangent, visible, *ctx.settings)


_apply_plainly: Callable[..., Tensor] = super(Function, _Differentiable).apply


def _apply(x: Tensor, visible: Tensor, *settings: Any) -> Tensor:
    differentiated = (x.requires_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0
    run: Callable[..., Tensor]
    if torch.compiler.is_compiling():
        run = _Compilable.apply if differentiated else torch.ops.regard.continuous_fit
    elif is_plain(x) and is_plain(visible):
        run = _apply_plainly if differentiated else _run
    else:
        refuse_nested_forward_mode()
        run = _Differentiable.apply
    return run(x, visible, *settings)


def weights_of(
    r: Tensor, visible: Tensor, number: int, ridge: float, shape: tuple[int, int] | None
) -> Tensor:
    """Gᵀr (..., n) of r (..., N or N²) and the keys that may be looked at, (..., n)."""
    batch = torch.broadcast_shapes(r.shape[:-1], visible.shape[:-1])
    r, visible = r.double().expand(*batch, r.shape[-1]), visible.expand(*batch, visible.shape[-1])
    return _apply(r, visible, False, number, ridge, list(shape or ()))
