"""How a kernel becomes an operator that autograd, functorch, the compiler and fake tensors can all use.

The compiler sees an opaque operator with a fake kernel. Around it is an `autograd.Function` with
`setup_context` and `vmap`: a formula registered with the operator itself (`register_autograd`) fails under
`jacrev` and gives silent zeros under `jacfwd`. Forward mode needs a `jvp`, which Dynamo refuses, so there are
two Functions, and `torch.compiler.is_compiling()` chooses. Plain tensors go to the kernel directly.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import Function, forward_ad
from torch.nn import Parameter
from torch.utils.flop_counter import register_flop_formula


def _keys(tensor: Tensor) -> int:
    return torch._C._dispatch_keys(tensor).raw_repr()


_PLAIN_KEYS = set()
for inference in (True, False):
    with torch.inference_mode(inference):
        _PLAIN_KEYS.add(_keys(torch.empty(0, device="cpu")))


def is_plain(*tensors: Tensor) -> bool:
    """Whether NumPy may have these: on the CPU, and no compiler, transform, mode or subclass is involved."""
    if (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._get_tracing_state() is not None
    ):
        return False
    for tensor in tensors:  # noqa: SIM110
        if type(tensor) is not Tensor or _keys(tensor) not in _PLAIN_KEYS:  # batched, wrapped, lazily negated
            return False
    return True


def are_plain_weights(tensors: Sequence[Tensor]) -> bool:
    """The same for weights of a layer, parameters or not, where `is_plain` holds of what they meet."""
    for tensor in tensors:
        if type(tensor) not in (Parameter, Tensor) or _keys(tensor) not in _PLAIN_KEYS:
            return False
    return True


def requires_grad(tensors: Sequence[Tensor]) -> bool:
    """Whether one of them does."""
    for tensor in tensors:  # noqa: SIM110  any() of a generator takes thrice as long
        if tensor.requires_grad:
            return True
    return False


def refuse_nested_forward_mode() -> None:
    """Raise where torch would give zeros: it does not differentiate the jvp of a Function by another jvp."""
    levels = get_interpreter_stack() or []
    if sum(level.key() == TransformType.Jvp for level in levels) > 1:
        raise NotImplementedError(
            "row maps have no forward-mode derivative of a forward-mode derivative; "
            "got jacfwd or jvp inside another. Use torch.func.hessian or jacfwd(jacrev(...))."
        )


def like(tensor: Tensor, *_: Any) -> Tensor:
    """A fake answer: contiguous, of the shape and dtype of the first input."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def in_front(info: Any, in_dims: Sequence[int | None], *tensors: Tensor) -> tuple[tuple[Tensor, ...], int]:
    """Tensors under vmap with the batch axis first, expanded where they have none, and where it is: 0."""
    pairs = zip(tensors, in_dims, strict=False)
    return tuple(
        t.expand(info.batch_size, *t.shape) if axis is None else t.movedim(axis, 0) for t, axis in pairs
    ), 0


def one_by_one(operator: Callable[..., Any]) -> Callable[..., Any]:
    """A vmap rule for an operator of several outputs: called once for each of the batch."""

    def lifted(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> tuple[Any, Any]:
        def at(i: int) -> Any:
            pairs = zip(inputs, in_dims, strict=True)
            return operator(*(x if axis is None else x.select(axis, i) for x, axis in pairs))

        answers = tuple(torch.stack(parts) for parts in zip(*map(at, range(info.batch_size)), strict=True))
        return answers, (0,) * len(answers)

    return lifted


def opaque(
    name: str,
    schema: str,
    run: Callable[..., Any],
    *,
    fake: Callable[..., Any],
    vmap: Callable[..., Any],
    flops: int | Callable[..., int],  # per number of the first input; or of shapes and settings
) -> Callable[..., Any]:
    """Enter torch.ops.regard.NAME, without derivatives, and return it."""
    entered = torch.library.custom_op(f"regard::{name}", run, mutates_args=(), schema=schema)
    entered.register_fake(fake)
    entered.register_vmap(vmap)
    operator: Callable[..., Any] = getattr(torch.ops.regard, name)
    register_flop_formula(operator)(flops if callable(flops) else lambda shape, *_, **__: flops * prod(shape))
    return operator


class Kept(NamedTuple):
    """What a backward pass needs of its forward pass."""

    saved_tensors: tuple[Tensor, ...]
    settings: tuple[Any, ...]
    needs_input_grad: tuple[bool, ...]


def make_operator(
    name: str,
    schema: str,  # "(Tensor scores, float strength) -> Tensor": tensors come first, then plain settings
    run: Callable[..., Any],  # the inputs to the answer, by kernel
    *,
    saved: Callable[[tuple[Any, ...], Any], tuple[Tensor, ...]],  # inputs, answer: what derivatives need
    backward: Callable[..., Any],  # ctx, gradients: the gradients of the tensors, in differentiable torch
    backward_by_kernel: Callable[..., Any] | None = None,  # *saved, gradient, *settings: the same
    jvp: Callable[..., Any],  # ctx, tangents of the tensors, None where there is none: the answer's
    reference: Callable[..., Any] | None = None,  # the answer in torch, on devices that `run` does not take
    fake: Callable[..., Any] = like,
    batched: Callable[..., tuple[tuple[Tensor, ...], int]] = in_front,
    flops: int | Callable[..., int] = 8,
    differentiable: int = 1,  # so many of the outputs, the first ones
) -> Callable[..., Any]:
    """Make the differentiable function of tensors and settings that torch.ops.regard.NAME is the forward of.

    `ctx` has `saved_tensors`, `settings` and `needs_input_grad`. The gradient is by kernel where no second
    derivative can follow.
    """
    arguments, returns = (part.count("Tensor") for part in schema.split("->"))

    def lifted(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        tensors, at = batched(info, in_dims, *inputs[:arguments])
        return apply(*tensors, *inputs[arguments:]), at if returns == 1 else (at,) * returns

    operator = opaque(name, schema, run, fake=fake, vmap=lifted, flops=flops)

    def undifferentiated(*inputs: Any) -> Any:
        if reference is None or inputs[0].is_cpu:
            return operator(*inputs)
        return reference(*inputs) if inputs[0].numel() else inputs[0].clone()

    class Compilable(Function):
        @staticmethod
        def forward(*inputs: Any) -> Any:
            return (run if is_plain(*inputs[:arguments]) else undifferentiated)(*inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if returns > differentiable:
                ctx.mark_non_differentiable(*output[differentiable:])
            ctx.save_for_backward(*saved(inputs, output))
            ctx.settings = inputs[arguments:]

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            kept = ctx.saved_tensors
            # Gradients are enabled where a second derivative may follow: create_graph, functorch, compiler.
            if backward_by_kernel and not torch.is_grad_enabled() and is_plain(gradients[0], *kept):
                found = backward_by_kernel(*kept, gradients[0], *ctx.settings)
            else:
                # Not ctx itself: under activation checkpointing, saved tensors can be unpacked only once.
                found = backward(Kept(kept, ctx.settings, ctx.needs_input_grad), *gradients)
            nothing = (None,) * len(ctx.settings)
            return (found, *nothing) if arguments == 1 else (*found, *nothing)

        vmap = staticmethod(lifted)

    class Plain(Compilable):
        forward = staticmethod(run)

    class Differentiable(Compilable):
        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            Compilable.setup_context(ctx, inputs, output)
            ctx.save_for_forward(*saved(inputs, output))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            return jvp(ctx, *tangents[:arguments])

    # Function.apply looks at signatures for 40 µs before it calls the apply of its base, which is all that is
    # needed outside functorch.
    apply_plain: Callable[..., Any] = super(Function, Plain).apply
    apply_forward_mode: Callable[..., Any] = super(Function, Differentiable).apply

    def apply(*inputs: Any) -> Any:
        tensors, forward_mode = inputs[:arguments], forward_ad._current_level >= 0
        learned = torch.is_grad_enabled() and requires_grad(tensors)
        if is_plain(*tensors):
            call = apply_forward_mode if forward_mode else apply_plain if learned else run
        elif torch.compiler.is_compiling():
            call = Compilable.apply if learned or forward_mode else undifferentiated
        else:
            refuse_nested_forward_mode()
            call = Differentiable.apply
        return call(*inputs)

    return apply
