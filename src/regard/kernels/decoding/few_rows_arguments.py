"""What the kernel of a linear layer for a few rows is told: a struct of addresses and sizes, 64 bits each."""

import ctypes

INTEGERS = (
    "x",  # (rows, d)
    "weight",  # (n, d)
    "bias",  # (n,); 0: there is none
    "y",  # (rows, n)
    "ticket",  # (1,), zero: the blocks of outputs that are taken
    "rows",
    "d",
    "n",
)


class Arguments(ctypes.Structure):
    """One product."""

    _fields_ = [("kind", ctypes.c_int64), *((name, ctypes.c_int64) for name in INTEGERS)]
