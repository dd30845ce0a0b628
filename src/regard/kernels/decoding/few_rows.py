"""Linear layers of a decoding step: y = xWᵀ + b for a few rows x, without gradient.

torch multiplies a single row by the routine it has for matrices, which reads W more slowly than memory
allows. Where this kernel does not apply, it is torch's product.
"""

import ctypes
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as modules

from regard.kernels.common.operator import are_plain_weights, is_plain
from regard.kernels.common.pool import call_in_threads, load_kernels
from regard.kernels.decoding.few_rows_arguments import Arguments

FEW = 8  # rows: with more of them torch is as fast
KINDS = (torch.float32, torch.float64)
LEAST = 1 << 18  # numbers of W per thread


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x), (..., d) to (..., n): by the kernel, if it is an nn.Linear and calling it does no more."""
    if torch.is_grad_enabled() or type(layer) is not nn.Linear or not is_bare(layer):
        found: Tensor = layer(x)
        return found
    held = layer._parameters  # as layer.weight, without looking for it
    return product(x, cast(Tensor, held["weight"]), held["bias"])


def is_bare(module: nn.Module) -> bool:
    """Whether calling it is calling the forward of its class: no hooks, no other forward."""
    return not (
        module._forward_hooks
        or module._forward_pre_hooks
        or modules._global_forward_hooks
        or modules._global_forward_pre_hooks
        or "forward" in module.__dict__
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """xWᵀ + b, (..., d) to (..., n), of weight W (n, d) and bias b (n,)."""
    if torch.is_grad_enabled() or not _takes(x, weight, bias):
        return F.linear(x, weight, bias)
    n, d = weight.shape
    y, ticket = torch.empty((*x.shape[:-1], n), dtype=x.dtype), ctypes.c_int64(0)
    struct = Arguments(
        0, x.data_ptr(), weight.data_ptr(), 0 if bias is None else bias.data_ptr(), y.data_ptr(),
        ctypes.addressof(ticket), x.numel() // d, d, n,
    )  # fmt: skip
    run = load_kernels("regard.kernels.decoding.few_rows_kernel").compiled_rows(x.dtype)
    call_in_threads(run, ctypes.addressof(struct), min(torch.get_num_threads(), n * d // LEAST))
    return y


def _takes(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the kernel applies."""
    kind, d, shape = x.dtype, x.shape[-1] if x.dim() else 0, weight.shape
    return (
        0 < x.numel() <= FEW * d
        and kind in KINDS
        and len(shape) == 2
        and shape[1] == d
        and weight.dtype is kind
        and (bias is None or (bias.dtype is kind and bias.shape == shape[:1] and bias.is_contiguous()))
        and is_plain(x)
        and are_plain_weights((weight,) if bias is None else (weight, bias))
        and x.is_contiguous()
        and weight.is_contiguous()
        and not torch.is_autocast_enabled("cpu")
    )
