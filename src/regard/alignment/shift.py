"""Attention that comes a word early or late, or half a word, brought back to its place.

A decoder that looks with its state before the word (`bahdanau`) often looks at the word before or after the
one that is translated: the weights are an alignment, moved by one row or by one column. Or it looks at both,
half a word late: then the mean of this row and the next is what looks for the word.

Koehn & Knowles (2017), "Six Challenges for Neural Machine Translation", arXiv:1706.03872, §3.6.
"""

from math import floor
from typing import NamedTuple

import numpy as np

from regard.alignment.bitext import Floats


class Shift(NamedTuple):
    """How far off: row j + rows looks for target word j, at column i + columns for source word i."""

    rows: float = 0
    columns: float = 0

    def correct(self, weights: Floats) -> Floats:
        """Weights (m, n) of m words, from weights (m + 1, n) with a row for the end."""
        moved = _moved(_moved(weights, self.rows).T, self.columns).T
        return moved[:-1]

    def __str__(self) -> str:
        if self == NO_SHIFT:
            return "no shift"
        side, by = ("target", self.rows) if self.rows else ("source", self.columns)
        return f"shifted by {by:+g} {side} word, corrected"


NO_SHIFT = Shift()
SHIFTS = (NO_SHIFT, Shift(1, 0), Shift(-1, 0), Shift(0, 1), Shift(0, -1), Shift(0.5, 0), Shift(-0.5, 0))


def _moved(weights: Floats, by: float) -> Floats:
    """Row k is row k + by, between rows what lies between them, outside nothing."""
    if not by:
        return weights
    down, share = floor(by), by - floor(by)
    padded = np.pad(weights, ((max(-down, 0), max(down, 0) + 1), (0, 0)))
    start, size = max(down, 0), len(weights)
    moved: Floats = (1 - share) * padded[start : start + size] + share * padded[start + 1 : start + 1 + size]
    return moved
