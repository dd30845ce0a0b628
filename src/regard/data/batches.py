"""Batches of similar length, by token count, in an order that depends on a seed alone.

A batch holds as many pairs as fit into `tokens` positions on its longer side, padding counted. To pad
little on both sides at once, the plane of (source length, target length) is cut in two, again and again,
each time across the side and at the place where the cut saves most padding, until a part fits into a batch.
Pairs of equal lengths are shuffled among batches, batches are shuffled among each other, both anew in each
epoch.

A large corpus is shuffled first and planned pool by pool, so that an epoch begins at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.tokens import BOS, EOS, PAD
from regard.data.encoded import Encoded

POOL = 2**17  # pairs that are planned at once
LEAST = 0.4  # neither part of a cut is smaller than this share of a batch
FULL = 0.03  # what a batch that is not full costs, as padding

Indices = NDArray[np.int64]
Side = tuple[Tensor, Tensor]  # tokens (b, n) and lengths (b,)
MARKS = np.array([0, 1])  # a target has BOS or EOS too


@dataclass(frozen=True, eq=False)
class Batch:
    """Pairs of ids, padded with PAD at the end."""

    source: Tensor  # (b, n)
    source_lengths: Tensor  # (b,)
    target_in: Tensor  # (b, m): BOS, then the target
    target_out: Tensor  # (b, m): the target, then EOS
    target_lengths: Tensor  # (b,), with BOS or EOS
    indices: Tensor  # (b,): which pairs of the corpus these are

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def tokens(self) -> int:
        """How many target tokens there are, EOS included and padding not."""
        return int(self.target_lengths.sum())

    @classmethod
    def of(cls, source: Side, target: Side, indices: Tensor) -> "Batch":
        """Sources and targets, each (b, n) with lengths (b,), as what a model reads and is to write."""
        (tokens, lengths), (words, counts) = source, target
        target_out = torch.nn.functional.pad(words, (0, 1), value=PAD)
        target_out[torch.arange(len(words)), counts] = EOS
        target_in = torch.nn.functional.pad(words, (1, 0), value=BOS)
        return cls(tokens, lengths, target_in, target_out, counts + 1, indices)

    def reversed(self) -> "Batch":
        """From target to source; a pair of which nothing is to be written has nothing in either direction."""
        words = self.target_in[:, 1:], self.target_lengths - 1
        batch = Batch.of(words, (self.source, self.source_lengths), self.indices)
        idle = (self.target_out == PAD).all(-1, keepdim=True)
        return replace(batch, target_out=batch.target_out.masked_fill(idle, PAD))

    def to(self, device: str | torch.device) -> "Batch":
        """The same batch on a device."""
        return Batch(**{name: tensor.to(device) for name, tensor in vars(self).items()})


class Batches:
    """The batches of a corpus, epoch by epoch; the same for the same seed."""

    def __init__(self, encoded: Encoded, tokens: int = 4096, seed: int = 0, sentences: int | None = None):
        if sentences is not None and sentences < 1:
            raise ValueError(f"sentences must be at least 1; got {sentences}.")
        longest = int((encoded.lengths.max(0) + MARKS).max())
        if tokens < longest:
            raise ValueError(
                f"tokens must be at least {longest}, the length of the longest pair; got {tokens}."
            )
        self.encoded, self.tokens, self.seed, self.sentences = encoded, tokens, seed, sentences

    def epoch(self, k: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of epoch k, without the first `skip`, which are planned but not read."""
        for number, indices in enumerate(self._plan(k)):
            if number >= skip:
                yield self._batch(indices)

    def count(self, k: int) -> int:
        """How many batches epoch k has."""
        return sum(1 for _ in self._plan(k))

    def padding(self, k: int) -> float:
        """The share of padding among all positions of epoch k, sources and targets."""
        real = positions = 0
        for part in self._plan(k):
            lengths = self.encoded.lengths[part] + MARKS
            real += int(lengths.sum())
            positions += len(part) * int(lengths.max(0).sum())
        return 1 - real / positions

    def _plan(self, k: int) -> Iterator[Indices]:
        """Which pairs are together, batch by batch."""
        chance = np.random.default_rng([self.seed, k])
        order = chance.permutation(len(self.encoded))
        for pool in np.array_split(order, -(-len(order) // POOL)):
            lengths = self.encoded.lengths[pool] + MARKS
            parts = list(cut(lengths, self.tokens, self.sentences))
            for part in chance.permutation(len(parts)):
                yield pool[parts[part]]

    def _batch(self, indices: Indices) -> Batch:
        sides = []
        for side, ids in enumerate((self.encoded.source, self.encoded.target)):
            starts = np.asarray(self.encoded.offsets[indices, side])
            lengths = self.encoded.lengths[indices, side].astype(np.int64)
            real = np.arange(lengths.max()) < lengths[:, None]  # (b, n)
            padded = np.full(real.shape, PAD, dtype=np.int64)
            padded[real] = ids[(starts[:, None] + np.arange(real.shape[1]))[real]]
            sides.append((torch.from_numpy(padded), torch.from_numpy(lengths)))
        return Batch.of(sides[0], sides[1], torch.from_numpy(indices))


def cut(lengths: NDArray[np.int64], tokens: int, sentences: int | None = None) -> Iterator[Indices]:
    """Part pairs of these lengths (n, 2) into groups of at most so many positions and sentences."""
    todo = [np.arange(len(lengths))]
    while todo:
        group = todo.pop()
        longest = int(lengths[group].max())
        if len(group) * longest <= tokens and len(group) <= (sentences or len(group)):
            yield group
        else:
            room = min(tokens, (sentences or tokens) * longest)
            cuts = [_best(lengths[group], side, room) for side in (0, 1)]
            _, order, place = min(cuts, key=lambda found: found[0])
            todo += [group[order[:place]], group[order[place:]]]


def _best(lengths: NDArray[np.int64], side: int, tokens: int) -> tuple[float, Indices, int]:
    """The best cut across one side: its cost in positions, the pairs in order, and how many go left."""
    order = np.lexsort((lengths[:, 1 - side], lengths[:, side]))
    ordered = lengths[order]
    left = np.maximum.accumulate(ordered)[:-1]  # (n − 1, 2): the longest of the first 1, 2, … pairs
    right = np.maximum.accumulate(ordered[::-1])[-2::-1]  # and of the others
    sizes = np.arange(1, len(order))
    filled = np.stack([sizes * left.max(1), (len(order) - sizes) * right.max(1)]) / tokens  # in batches
    cost = (
        sizes * left.sum(1)
        + (len(order) - sizes) * right.sum(1)
        + FULL * tokens * (np.ceil(filled) - filled).sum(0)
    )
    cost = np.where(filled.min(0) >= LEAST, cost, np.inf)
    place = int(cost.argmin()) if np.isfinite(cost).any() else len(sizes) // 2
    return float(cost[place]), order, place + 1
