"""Each rank's part of every batch.

    Rank r of s takes examples r, r + s, r + 2s, … of each batch

Batches are planned as for one process, from the seed alone, so that a step is the same step however many
ranks share it. The examples of a batch are in order of length, so that each rank gets short and long ones; it
reads no others. A rank that gets none, because the batch has too few, takes part with an idle batch: its loss
and its gradients are 0.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from regard.data.batches import POOL, Batch, Batches, Indices
from regard.data.encoded import Encoded
from regard.training.processes import Team


class RankBatches(Batches):
    """The part of every batch that one rank computes."""

    def __init__(
        self, encoded: Encoded, tokens: int, seed: int, team: Team, examples: int = 0, pool: int = POOL
    ):
        super().__init__(encoded, tokens, seed, examples or None, pool)
        self.team = team

    def epoch(self, k: int, skip: int = 0) -> Iterator[Batch]:
        """This rank's part of the batches of epoch k, without the first `skip`."""
        for number, indices in enumerate(self._plan(k)):
            if number >= skip:
                mine = indices[self.team.rank :: self.team.size]
                yield self.batch(mine) if len(mine) else replace(self.batch(indices[:1]), idle=True)


class ShuffledBatches(RankBatches):
    """Batches of so many examples each, drawn at random from those of about the same length.

    About: at most 8, 16, 32 … long. Where length tells which kind of example it is, batches of similar length
    (`Batches`) would each be of one kind; a last batch of each group may have fewer examples.
    """

    SHORT = 8

    def __init__(self, encoded: Encoded, examples: int, seed: int, team: Team):
        super().__init__(encoded, int(encoded.lengths.max()) * examples, seed, team, examples)
        self.size = examples
        longest = encoded.lengths.max(1)
        self.groups = np.ceil(np.log2(np.maximum(longest, self.SHORT) / self.SHORT)).astype(np.int64)

    def _plan(self, k: int) -> Iterator[Indices]:
        chance = np.random.default_rng([self.seed, k])
        order, batches = chance.permutation(len(self.encoded)), []
        for group in np.unique(self.groups):
            own = order[self.groups[order] == group]
            batches += np.array_split(own, range(self.size, len(own), self.size))
        return (batches[i] for i in chance.permutation(len(batches)))
