"""Each rank's part of every batch.

    Rank r of s takes examples r, r + s, r + 2s, … of each batch

Batches are planned as for one process, from the seed alone, so that a step is the same step however many
ranks share it. The examples of a batch are in order of length, so that each rank gets short and long ones; it
reads no others. A rank that gets none, because the batch has too few, takes part with an idle batch: its loss
and its gradients are 0.
"""

from collections.abc import Iterator
from dataclasses import replace

from regard.data.batches import POOL, Batch, Batches
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
