"""Matching: every element of the smaller side is matched with one of the larger, no two with the same.

Of m rows and n columns, m ≤ n, every row has one column; if m > n, every column has one row. The polytope for
m = n is the Birkhoff polytope, the doubly stochastic matrices. Fully masked rows and columns are removed; the
rest must have a matching. To keep padding out of self-attention, mask its rows as well as its columns.
"""

from regard.kernels.sparsemap.sparsemap_batch import MATCHING
from regard.structures.built_in import BuiltIn


class Matching(BuiltIn):
    """One-to-one matchings of the rows and columns of scores (..., m, n)."""

    acts_on = "matrix"
    kind = MATCHING
