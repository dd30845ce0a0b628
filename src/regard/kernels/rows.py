"""What kernels over rows share: the largest score, and rows that have none.

The loops are written so that LLVM vectorises them: sums in functions that may be reordered (`compiled`), differences
in functions that may not (`exactly`). Reordered, (θ − max) − τ would become θ − (max + τ), and τ would drown in a
maximum of 1e30.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from regard.kernels.compiled import compiled

BLOCK = 4096  # scores whose sum is taken in their own precision; sums of blocks are added in float64


def exactly(function: Any) -> Any:
    """Compile a function whose operations stay in the order in which they are written."""
    return compiled(function, fastmath=False)


@intrinsic  # type: ignore[untyped-decorator]
def maximum(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two floats, NaN if either is: the only maximum whose loop LLVM vectorises."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.maximum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, arguments, fastmath=("nsz",))

    return a(a, a), generate


@compiled
def largest(row: Any) -> Any:
    """The maximum of a row that is not empty, NaN if one of its scores is."""
    top = row[0]
    for j in range(1, len(row)):
        top = maximum(top, row[j])
    return top


@compiled
def fill_without(top: Any, out: Any) -> None:
    """The weights of a row without a largest finite score: 0 where all is −inf, NaN where +inf or NaN occurs."""
    out[:] = 0.0 if top == -np.inf else np.nan
