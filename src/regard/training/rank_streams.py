"""Each rank's rows of contiguous streams, and the state that a model carries from one segment to the next.

    Rank r of s takes rows r, r + s, r + 2s, … of every batch

so that what a rank's model has read in one batch goes on in its next. The state after a batch is part of a
checkpoint (`carried`, `carry`): a run that was stopped goes on as if it had not been. A last batch of an
epoch that is shorter than half a segment is left out, unless there is no other.

A model that carries nothing needs no order: its segments are shuffled in each epoch, so that a batch, and one
after the other, are of many places of the text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batches import Batch
from regard.data.encoded import Encoded
from regard.data.streams import Streams
from regard.training.processes import ALONE, Team


@dataclass
class Carrier:
    """Holds the state of a model between batches; None before the first of an epoch."""

    state: Any = None


@dataclass(frozen=True, eq=False)
class StreamBatch(Batch):
    """Segments of a stream, and what the model kept of those before."""

    carrier: Carrier = field(default_factory=Carrier)
    begins: bool = True  # the first of an epoch: nothing is carried into it

    @property
    def state(self) -> Any:
        """The state that the model begins these segments with."""
        return None if self.begins else self.carrier.state


class RankStreams(Streams):
    """The rows of every batch that one rank computes."""

    def __init__(
        self,
        encoded: Encoded,
        rows: int,
        segment: int,
        seed: int = 0,
        team: Team = ALONE,
        most: int = 0,
        shuffled: bool = False,
    ):
        super().__init__(encoded, rows, segment, seed)
        if rows % team.size:
            raise ValueError(f"{rows} rows cannot be shared out evenly among {team.size} processes.")
        self.values = self.values[:most] if most else self.values
        self.team, self.carrier, self.shuffled = team, Carrier(), shuffled

    def epoch(self, k: int, skip: int = 0) -> Iterator[Batch]:
        """This rank's part of the batches of epoch k, without the first `skip`."""
        mine = slice(self.team.rank, None, self.team.size)
        if self.shuffled:
            yield from self._shuffled(k, skip, mine)
            return
        for number, batch in enumerate(super().epoch(k, skip), skip):
            tokens = batch[self.field][mine]
            if number and tokens.shape[1] - 1 < self.segment / 2:
                continue
            fields, lengths = {self.field: tokens}, {self.field: batch.lengths[self.field][mine]}
            yield StreamBatch(fields, lengths, batch.indices[mine], carrier=self.carrier, begins=number == 0)

    def _shuffled(self, k: int, skip: int, mine: slice) -> Iterator[Batch]:
        """Batches of segments in an order drawn from seed and epoch; a last one not full is left out."""
        chance, size = np.random.default_rng([self.seed, k]), self.segment
        room = (len(self.values) - 1) % size if k == 0 else size - 1
        shift = min(int(chance.integers(room + 1)), len(self.values) - 1 - size * self.rows)
        order = chance.permutation((len(self.values) - 1 - shift) // size)
        for at in range(skip * self.rows, len(order) - self.rows + 1, self.rows):
            starts = (shift + size * order[at : at + self.rows])[mine]
            tokens = torch.from_numpy(self.values[starts[:, None] + np.arange(size + 1)].astype(np.int64))
            lengths = {self.field: torch.full((len(starts),), size + 1)}
            yield StreamBatch({self.field: tokens}, lengths, torch.from_numpy(starts))

    def carried(self) -> dict[str, Tensor]:
        """The state after the last batch, tensors by name; empty if the model carries none."""
        return {} if self.carrier.state is None else dict(self.carrier.state)

    def carry(self, state: Mapping[str, Tensor]) -> None:
        """Go on with a state that `carried` gave."""
        self.carrier.state = dict(state) or None
