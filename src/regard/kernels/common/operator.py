"""What operators made of kernels ask of tensors."""

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack


def _keys(tensor: Tensor) -> int:
    return torch._C._dispatch_keys(tensor).raw_repr()


_PLAIN_KEYS = set()
for inference in (True, False):
    with torch.inference_mode(inference):
        _PLAIN_KEYS.add(_keys(torch.empty(0, device="cpu")))


def is_plain(tensor: Tensor) -> bool:
    """Whether NumPy may have a tensor: on the CPU, and no compiler, transform, mode or subclass looks on."""
    return (
        not torch.compiler.is_compiling()
        and type(tensor) is Tensor
        and _keys(tensor) in _PLAIN_KEYS  # not batched, not wrapped, no lazy minus sign
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and torch._C._get_tracing_state() is None
    )


def refuse_nested_forward_mode() -> None:
    """Raise where torch would give zeros: it does not differentiate the jvp of a Function by another jvp."""
    levels = get_interpreter_stack() or []
    if sum(level.key() == TransformType.Jvp for level in levels) > 1:
        raise NotImplementedError(
            "row maps have no forward-mode derivative of a forward-mode derivative; "
            "got jacfwd or jvp inside another. Use torch.func.hessian or jacfwd(jacrev(...))."
        )
