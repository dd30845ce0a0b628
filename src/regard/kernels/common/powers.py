"""Logarithms and powers of two that LLVM turns into vector instructions; a call into libm would prevent that.

    log₂ w = k + log₂ m,  w = m·2ᵏ with m ∈ [√½, √2);      log₂ m = (2/ln 2)·artanh t,  t = (m − 1)/(m + 1)
    2ᶻ = 2ⁱ·2ᶠ,  i = round z,  f ∈ [−½, ½]

artanh(t)/t is a polynomial in t² and (2ᶠ − 1)/f one in f, with minimax coefficients: relative errors of 7e-10
and 2e-9 in float32, 1e-18 and 3e-18 in float64, before rounding. (Numba caches a kernel by the file that it
is in: after a change here, touch the files that use it.)
"""

from math import factorial
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from regard.kernels.common.compiled import REORDER

f4, i4, f8, i8 = np.float32, np.int32, np.float64, np.int64

LOG_4 = tuple(f4(c) for c in (2.885390079788929, 0.9617988476423898, 0.5767143838679706, 0.4317358816715652))
LOG_8 = (
    2.885390081777927, 0.9617966939259898, 0.5770780163454704, 0.4121985858510759,
    0.3205985339256334, 0.26233440177565607, 0.2209118663214932, 0.21367078292339623,
)  # fmt: skip
EXP_4 = tuple(
    f4(c)
    for c in (
        0.6931472028550002, 0.2402264791375658, 0.05550332471309629,
        0.009618437340927806, 0.0013398874359511164, 0.00015353366618481206,
    )
)  # fmt: skip
EXP_8 = (
    0.6931471805599453, 0.24022650695910131, 0.05550410866482008, 0.009618129107594121,
    0.0013333558146774626, 0.00015403530457110492, 0.000015252733493116193, 1.3215435283100293e-6,
    1.0178199578403593e-7, 7.073783115558885e-9, 4.434770108833277e-10,
)  # fmt: skip

TAIL_8 = tuple(1 / factorial(k + 2) for k in range(14))
TAIL_4 = tuple(f4(c) for c in TAIL_8[:7])

# What `compiled` asks for, so that the loops around these stay free to fuse and reorder.
in_kernels: Any = {"fastmath": REORDER, "error_model": "numpy"}


def log2(f: float, w: float) -> float:
    """log₂ w of a normal w = 1 + f > 0; f serves where adding 1 may have cost digits. Compiled code only."""
    raise NotImplementedError


def exp2(z: float) -> float:
    """2ᶻ for z ≤ 0, and 0 where that is below the smallest normal number. Compiled code only."""
    raise NotImplementedError


def exp_tail(z: float) -> float:
    """(e^{−z} − 1 + z)/z² for −½ ≤ z ≤ 0 by its Taylor series Σ (−z)ᵏ/(k + 2)!. Compiled code only."""
    raise NotImplementedError


@overload(log2, jit_options=in_kernels)
def _log2(f: Any, w: Any) -> Any:
    def narrow(f: Any, w: Any) -> Any:
        bits = f4(w).view(i4)
        k = i4(i4(bits - 0x3F3504F3) >> 23)  # the bits of √½
        f = f if k == 0 else i4(bits - (k << 23)).view(f4) - f4(1)
        t = f / (f4(2) + f)
        v = t * t
        c = LOG_4
        return f4(k) + t * (c[0] + v * (c[1] + v * (c[2] + v * c[3])))

    def wide(f: Any, w: Any) -> Any:
        bits = f8(w).view(i8)
        k = i4(i4(i4(bits >> 32) - 0x3FE6A09E) >> 20)  # the upper bits of √½
        f = f if k == 0 else i8(bits - (i8(k) << 52)).view(f8) - 1.0
        t = f / (2.0 + f)
        v = t * t
        c = LOG_8
        high = c[4] + v * (c[5] + v * (c[6] + v * c[7]))
        return f8(k) + t * (c[0] + v * (c[1] + v * (c[2] + v * (c[3] + v * high))))

    return narrow if w == types.float32 else wide


@overload(exp2, jit_options=in_kernels)
def _exp2(z: Any) -> Any:
    def narrow(z: Any) -> Any:
        whole = np.floor(max(z, f4(-127)) + f4(0.5))
        f = max(z, f4(-127)) - whole
        c = EXP_4
        m = f4(1) + f * (c[0] + f * (c[1] + f * (c[2] + f * (c[3] + f * (c[4] + f * c[5])))))
        return m * i4((i4(whole) + 127) << 23).view(f4)

    def wide(z: Any) -> Any:
        whole = np.floor(max(z, -1023.0) + 0.5)
        f = max(z, -1023.0) - whole
        c = EXP_8
        high = c[5] + f * (c[6] + f * (c[7] + f * (c[8] + f * (c[9] + f * c[10]))))
        m = 1.0 + f * (c[0] + f * (c[1] + f * (c[2] + f * (c[3] + f * (c[4] + f * high)))))
        return m * i8(i8(i4(whole) + 1023) << 52).view(f8)

    return narrow if z == types.float32 else wide


@overload(exp_tail, jit_options=in_kernels)
def _exp_tail(z: Any) -> Any:
    def narrow(z: Any) -> Any:
        c = TAIL_4
        return c[0] - z * (c[1] - z * (c[2] - z * (c[3] - z * (c[4] - z * (c[5] - z * c[6])))))

    def wide(z: Any) -> Any:
        c = TAIL_8
        high = c[7] - z * (c[8] - z * (c[9] - z * (c[10] - z * (c[11] - z * (c[12] - z * c[13])))))
        return c[0] - z * (c[1] - z * (c[2] - z * (c[3] - z * (c[4] - z * (c[5] - z * (c[6] - z * high))))))

    return narrow if z == types.float32 else wide
