"""What kernels over rows share: how their parts are compiled, the largest score, rows that have none.

Loops are written so that LLVM vectorises them: sums in parts that may be reordered (`inlined`), differences
in parts that may not (`exactly`). Reordered, (θ − max) − τ would become θ − (max + τ), and τ would drown in a
maximum of 1e30.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from regard.kernels.common.compiled import compiled

BLOCK = 1024  # so many scores are summed in their own precision; the sums of blocks are added in float64
ZERO = np.float32(0)  # takes the precision of what it meets


def inlined(function: Any) -> Any:
    """Compile a part of a kernel into its caller: a call costs as much as a pass over 64 scores."""
    return compiled(function, forceinline=True)


def exactly(function: Any) -> Any:
    """Compile a part of a kernel whose operations stay in the order in which they are written."""
    return compiled(function, forceinline=True, fastmath=False)


def _maximum(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two floats, NaN if either is: the one maximum whose loop LLVM vectorises."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        llvm = builder.module.declare_intrinsic("llvm.maximum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(llvm, arguments, fastmath=("nsz",))

    return a(a, a), generate


maximum: Any = intrinsic(_maximum)


@inlined
def largest(row: Any) -> Any:
    """The maximum of a row that is not empty, NaN if one of its scores is."""
    top = row[0]
    for j in range(len(row)):
        top = maximum(top, row[j])
    return top


@inlined
def fill_without(top: Any, out: Any) -> None:
    """The weights of a row whose maximum is not finite: 0 if all is −inf, NaN if +inf or NaN occurs."""
    out[:] = 0.0 if top == -np.inf else np.nan
