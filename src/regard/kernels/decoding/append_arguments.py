"""What the kernel that appends a token to a cache with codes is told: addresses and sizes, 64 bits each."""

import ctypes

INTEGERS = (
    "new_keys",  # (rows, d)
    "new_values",  # (rows, d_v)
    "at",  # the position of the token
    "keys",  # (rows, capacity, d)
    "values",  # (rows, capacity, d_v)
    "packed",  # (rows, room · each), bytes
    "scales",  # (rows, room)
    "errors",  # (rows, room)
    "norms",  # (rows, 2), float64
    "rows",
    "capacity",
    "room",  # the capacity, rounded up to whole blocks
    "d",
    "d_v",
    "bits",
    "each",  # bytes of a key's codes
)


class Appended(ctypes.Structure):
    """One token; all but the first three stay as they are."""

    _fields_ = [("kind", ctypes.c_int64), *((name, ctypes.c_int64) for name in INTEGERS)]
