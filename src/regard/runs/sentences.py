"""The pairs of a run: from files, or generated; some to learn from, some to validate on."""

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from regard.core.errors import RunError
from regard.data import CORPORA
from regard.data.text import pairs
from regard.runs.settings import Data

Pairs = Iterator[tuple[str, str]]


class Sentences:
    """Training and validation pairs, streamed anew each time they are asked for."""

    def __init__(self, data: Data, seed: int):
        self.data, self.seed, self.stride = data, seed, 0
        if data.corpus is None and data.valid_source is None:
            count = sum(1 for _ in self._files())
            if count < 2:
                raise RunError(
                    f"{data.source} has {count} pair; at least 2 are needed, one of them held out."
                )
            self.stride = max(2, 10 if count >= 10 else 2, count // data.held_out)

    def train(self) -> Pairs:
        """The pairs to learn from."""
        if self.data.corpus is not None:
            yield from islice(self._generated("train"), self.data.pairs)
        else:
            yield from (pair for i, pair in enumerate(self._files()) if not self.stride or i % self.stride)

    def valid(self) -> Pairs:
        """The pairs to validate on: files, others of the generated corpus, or every so many of the files."""
        if self.data.corpus is not None:
            yield from islice(self._generated("valid"), self.data.held_out)
        elif self.data.valid_source is not None:
            yield from pairs(self.data.valid_source, self.data.valid_target)
        else:
            yield from islice(self._files(), 0, None, self.stride)

    def _files(self) -> Pairs:
        assert self.data.source is not None
        return pairs(self.data.source, self.data.target)

    def _generated(self, split: Literal["train", "valid"]) -> Pairs:
        assert self.data.corpus is not None
        for pair in CORPORA[self.data.corpus](seed=self.seed, split=split):
            yield pair.source, pair.target
