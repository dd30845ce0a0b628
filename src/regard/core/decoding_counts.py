"""What the certified backend counts for each attention: keys read, support, fallbacks."""

from collections import Counter
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from torch import nn

COLUMNS = ("steps", "visible", "scored", "support", "keys", "values")


@dataclass(eq=False)
class Counts:
    """Sums over the steps of one attention."""

    tables: dict[tuple[int, int, int], NDArray[np.int64]] = field(default_factory=dict)
    # by (sequences, heads, queries): a row for each of them, in that order, of COLUMNS
    fallbacks: Counter[str] = field(default_factory=Counter)  # steps that another backend took, by reason
    shape: dict[str, int] = field(default_factory=dict)  # bits, widths, heads that share keys

    def table(self, sequences: int, heads: int, queries: int) -> NDArray[np.int64]:
        """The table of calls of this shape."""
        key = sequences, heads, queries
        if key not in self.tables:
            self.tables[key] = np.zeros((sequences * heads * queries, len(COLUMNS)), np.int64)
        return self.tables[key]

    def by_head(self) -> NDArray[np.int64]:
        """(heads, columns): sums over sequences and queries."""
        found = [table.reshape(b, heads, m, -1).sum((0, 2)) for (b, heads, m), table in self.tables.items()]
        return np.sum(found, 0, dtype=np.int64) if found else np.zeros((0, len(COLUMNS)), np.int64)


_counts: WeakKeyDictionary[nn.Module, Counts] = WeakKeyDictionary()


def counts_of(owner: nn.Module) -> Counts:
    """What is counted for an attention, from now on."""
    found = _counts.get(owner)
    if found is None:
        found = _counts[owner] = Counts()
    return found


def known_counts(owner: nn.Module) -> Counts | None:
    """What has been counted for an attention; None if nothing."""
    return _counts.get(owner)


def forget_counts(owner: nn.Module) -> None:
    """Count from 0."""
    _counts.pop(owner, None)
