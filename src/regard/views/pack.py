"""Numbers for the browser: few digits where there are few numbers, two bytes each where there are many.

Either way exactly 0 stays exactly 0, and nothing else becomes 0: sparse weights arrive sparse.
"""

from base64 import b64encode

import numpy as np

from regard.views.weight_matrices import Array

DIGITS = 5  # significant ones


def rows(p: Array) -> list[list[float]]:
    """Nested lists, rounded to DIGITS significant digits."""
    return [[_short(value) for value in row] for row in p.tolist()]


def packed(p: Array) -> str:
    """Base64 of bfloat16 (the upper half of a float32), little-endian, row by row: about 2½ digits."""
    bits = np.ascontiguousarray(p, dtype=np.float32).view(np.uint32)
    codes = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # round half to even, as hardware does
    lost = (p != 0) & ((codes & 0x7FFF) == 0)
    codes = np.where(lost, 1 | ((p < 0).astype(np.uint32) << 15), codes)
    return b64encode(np.where(p == 0, 0, codes).astype("<u2").tobytes()).decode("ascii")


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}") if value else 0
