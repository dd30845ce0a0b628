"""What the kernel of a certified step is told: a struct of addresses and sizes, 64 bits each."""

import ctypes

INTEGERS = (
    "query",  # (rows, d): rows g · each … share the keys of group g
    "keys",  # (groups, capacity, d)
    "values",  # (groups, capacity, d_v)
    "packed",  # and scales, errors (groups, room) and norms (groups, 2) as `encode` writes them
    "scales",
    "errors",
    "norms",
    "context",  # (rows, d_v)
    "lo",  # (rows,): row r sees the keys lo[r] ≤ j < hi[r],
    "hi",
    "sinks",  # (rows,), float64: and one of this score that has no value
    "halves",  # (rows,), float64: α − 1 of entmax, or 0 for softmax
    "counts",  # (rows, 6), which are added to; 0: nothing is counted
    "bounds",  # memory to work in: (rows, wide)
    "scaled",  # (rows, d)
    "slacks",  # (rows,)
    "seen",  # (2, groups, wide), bytes: keys and values that were read, if they are counted
    "counters",  # (4 + 2 · groups,), zeros: see `certified_kernel`
    "rows",
    "groups",
    "capacity",
    "room",  # the capacity, rounded up to whole blocks
    "d",
    "d_v",
    "bits",
    "bytes",  # of a key's codes
    "k",  # of the k highest scores; 0: of all
    "last",  # no row sees this key, or any behind it
    "wide",
    "chunks",  # pieces of a scan
    "ahead",  # groups whose codes are scanned before a group's rows are finished: 1 with several threads
)
REALS = ("scale",)  # of the query


class Arguments(ctypes.Structure):
    """One step."""

    _fields_ = [
        ("kind", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in INTEGERS),
        *((name, ctypes.c_double) for name in REALS),
    ]
