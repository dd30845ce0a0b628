"""What each process computes of a batch: every so manieth pair.

    process r of s has the pairs r, r + s, r + 2s, … of each batch

Batches are planned as for one process, from the seed alone, so that a step is the same step however many
processes share it. The pairs of a batch are in order of length, so that each gets short and long ones; it
reads no others. One that gets none, since the batch has too few, takes part with a pair without targets: its
loss and its gradients are 0.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch

from regard.core.tokens import PAD
from regard.data.batches import Batch, Batches
from regard.data.encoded import Encoded
from regard.training.processes import Team


class Part(Batches):
    """The part of every batch that is one process's."""

    def __init__(self, encoded: Encoded, tokens: int, seed: int, team: Team):
        super().__init__(encoded, tokens, seed)
        self.team = team

    def epoch(self, k: int, skip: int = 0) -> Iterator[Batch]:
        """This process's part of the batches of epoch k, without the first `skip`."""
        for number, indices in enumerate(self._plan(k)):
            if number >= skip:
                mine = indices[self.team.rank :: self.team.size]
                yield self._batch(mine) if len(mine) else idle(self._batch(indices[:1]))


def idle(batch: Batch) -> Batch:
    """A batch from which nothing is learned."""
    return replace(batch, target_out=torch.full_like(batch.target_out, PAD))
