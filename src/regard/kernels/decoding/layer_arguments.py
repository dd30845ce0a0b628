"""What the kernel of a Transformer layer for one position is told: a struct of addresses and sizes."""

import ctypes

WEIGHTS = ("norm", "W_q", "W_k", "W_v", "W_o", "norm_2", "W_1", "W_2")  # each with a bias, 0: there is none
INTEGERS = (
    "x",  # (rows, d)
    "y",  # (rows, d)
    *(name for weight in WEIGHTS for name in (weight, f"{weight}_bias")),
    "keys",  # (rows, heads, capacity, each): those of the position are written behind the first n
    "values",
    "cos",  # (turned / 2,), of this position
    "sin",
    "work",  # rows · (5 d + inner) numbers to work in
    "counters",  # (10,), zeros: tasks taken, and tasks done, of each part
    "rows",
    "d",
    "heads",
    "inner",
    "n",  # keys before this one
    "capacity",
    "turned",  # coordinates of a head that are rotated; 0: none
    "interleaved",
    "activation",  # an index into ACTIVATIONS
)
REALS = ("eps", "eps_2", "scale")
ACTIVATIONS = ("relu", "squared_relu", "gelu_tanh")


class Arguments(ctypes.Structure):
    """One layer."""

    _fields_ = [
        ("kind", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in INTEGERS),
        *((name, ctypes.c_double) for name in REALS),
    ]
