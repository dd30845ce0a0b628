"""Kernels that are called by address, with one struct: nothing of Python runs in the threads.

A step of decoding takes less time than to hand arrays to Numba one by one, and than a Python thread takes to
begin. The struct holds addresses, sizes and numbers; a kernel gets it as a record, and makes pointers of its
addresses (`integers`, `stored`, `floats` …). Threads share out the work by a counter.

The record's field `kind` has the type of the stored numbers: float32, float64, uint16 for bfloat16 and int16
for float16, which are computed with as float32.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import torch
from numba import types
from numba.core.ccallback import CFunc

from regard.kernels.common.compiled import OPTIONS, stamped
from regard.kernels.common.simd import computed, intrinsic

KINDS = {torch.float32: "f4", torch.float64: "f8", torch.bfloat16: "u2", torch.float16: "i2"}
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def callback(
    function: Callable[..., None], integers: Sequence[str], reals: Sequence[str], kind: torch.dtype
) -> Any:
    """Compile function(struct) for stored numbers of a kind: something ctypes can call, without the GIL.

    The struct has a number that is not used, the integers and the reals, each of 64 bits.
    """
    names = ["kind", *integers, *reals]
    formats = [KINDS[kind], *["i8"] * len(integers), *["f8"] * len(reals)]
    offsets = [8 * k for k in range(len(names))]
    record: Any = np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": 8 * len(names)}
    )
    signature = (types.CPointer(numba.from_dtype(record)),), types.void
    made: Any = CFunc(function, signature, {}, {**OPTIONS, "nopython": True})
    try:
        made.enable_caching()
        stamped(made)
    except RuntimeError:  # no directory that could hold the cache
        pass
    made.compile()
    found: Any = _Callback(made.address)
    found.kept = made  # the code lives as long as what calls it
    return found


def _pointer(kind_of: Callable[[Any], Any]) -> Any:
    def pointer(typing: Any, address: Any, kind: Any) -> Any:
        made = types.CPointer(kind_of(kind))

        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(made))

        return made(types.int64, kind), code

    return intrinsic(pointer)


# (address, kind): what is there
integers: Any = _pointer(lambda kind: types.int64)
stored: Any = _pointer(lambda kind: kind)  # as it is in memory
floats: Any = _pointer(computed)  # as it is computed with
octets: Any = _pointer(lambda kind: types.uint8)
doubles: Any = _pointer(lambda kind: types.float64)
