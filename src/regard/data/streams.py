"""Contiguous streams: one long sequence cut into rows that go on from batch to batch, for language models.

    rows      the sequence in `rows` equal parts, side by side; what is left over at its end is dropped
    segment   batch t holds tokens t·segment … (t + 1)·segment of every row

so that the state or the memory that a model has after batch t belongs to the tokens of batch t + 1. Each
segment comes with one token more than it is long: the last one is only predicted. An epoch k > 0 begins at
another place of the first segment, so that segments are not always cut at the same tokens.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import Batch
from regard.data.encoded import Encoded


class Streams:
    """The batches of one field of a corpus, its examples read as one sequence; the same for the same seed."""

    def __init__(self, encoded: Encoded, rows: int, segment: int, seed: int = 0, field: str = "tokens"):
        values = encoded.values[field]
        if rows < 1 or segment < 1:
            raise ValueError(f"rows and segment must be at least 1; got {rows} and {segment}.")
        if len(values) < 2 * rows:
            raise ValueError(f"{rows} rows need at least {2 * rows} tokens; the corpus has {len(values):,}.")
        self.values: NDArray[np.int64] = values
        self.rows, self.segment, self.seed, self.field = rows, segment, seed, field

    def epoch(self, k: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of epoch k, without the first `skip`, from the beginning of each row to its end."""
        shift = 0 if k == 0 else int(np.random.default_rng([self.seed, k]).integers(self.segment))
        shift = min(shift, len(self.values) - 2 * self.rows)
        each = (len(self.values) - shift - 1) // self.rows  # tokens of a row that are followed by another
        starts = shift + each * np.arange(self.rows)
        for at in range(skip * self.segment, each, self.segment):
            size = min(self.segment, each - at) + 1
            tokens = torch.from_numpy(self.values[(starts + at)[:, None] + np.arange(size)].astype(np.int64))
            lengths = torch.full((self.rows,), size)
            yield Batch({self.field: tokens}, {self.field: lengths}, torch.from_numpy(starts + at))

    def count(self, k: int) -> int:
        """How many batches epoch k has."""
        return sum(1 for _ in self.epoch(k))
