"""The few elements of a row that are above a floor: where they are, by comparing vectors.

Rows of attention have one or two dozen keys with weight among hundreds: once these are found, the rest of the
work is on them alone. A row with too many is better treated whole.
"""

from typing import Any

from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import above, first_bit, load, splat, width

SHORT = 1024  # rows shorter than this are treated whole at once: dense passes over them are as quick
FEW = 8  # a row is treated by these if at most one in so many is above the floor


@inlined
def select_above(rows: Any, i: int, floor: Any, places: Any) -> int:
    """Write the places of row i above the floor, in order; returns how many, −1 if more than one in FEW.

    `places` has room for the whole row. NaN counts as above.
    """
    n, w = rows.shape[1], width(rows)
    most, count, j = n // FEW, 0, 0
    floors = splat(rows, floor)
    at = i * n
    while j + 4 * w <= n:
        bits = above(load(rows, at + j), floors) | above(load(rows, at + j + w), floors) << w
        bits |= (
            above(load(rows, at + j + 2 * w), floors) | above(load(rows, at + j + 3 * w), floors) << w
        ) << 2 * w
        while bits != 0:
            places[count] = j + first_bit(bits)
            bits &= bits - 1
            count += 1
        if count > most:
            return -1
        j += 4 * w
    while j < n:
        if not rows[i, j] <= floor:
            places[count] = j
            count += 1
        j += 1
    return count if count <= most else -1
