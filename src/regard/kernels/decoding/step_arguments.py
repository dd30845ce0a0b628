"""What the kernel of a decoding step is told: a struct of addresses and sizes, 64 bits each."""

import ctypes

INTEGERS = (
    "query",  # (rows, d)
    "keys",  # and values as they are stored; all else is as it is computed with
    "values",
    "context",  # (rows, d_v)
    "groups",  # (g, 4): first row, row after the last, where keys and values begin
    "lo",  # (rows,): row r sees the keys lo[r] ≤ j < hi[r],
    "hi",
    "sink",  # (rows,): and one of this score that has no value
    "table",  # (rows, columns): column j − first[r], or the nearest, is added to the score of key j
    "first",
    "columns",  # 0: there is no table
    "theta",  # memory to work in: (rows, n + 4), for sparse maps
    "tops",  # (rows, chunks)
    "sums",  # (rows, chunks)
    "parts",  # (rows, chunks, d_v), for softmax
    "counters",  # (g + 1,), zeros: the chunks of each group that are done; the pieces taken
    "rows",
    "n",
    "d",
    "d_v",
    "key_step",
    "value_step",
    "groups_in_all",
    "chunks",
)
REALS = (
    "scale",  # of the query
    "half",  # h of a sparse map, 1 or ½; 0 for softmax
)


class Arguments(ctypes.Structure):
    """One step."""

    _fields_ = [
        ("kind", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in INTEGERS),
        *((name, ctypes.c_double) for name in REALS),
    ]
