"""Batches of similar length, by token count, in an order that depends on a seed alone.

A batch holds as many examples as fit into `tokens` positions of its longest field, padding counted. To pad
little in all fields at once, the space of lengths is cut in two, again and again, each time across the field
and at the place where the cut saves most padding, until a part fits into a batch. Examples of equal lengths
are shuffled among batches, batches are shuffled among each other, both anew in each epoch.

A large corpus is shuffled first and planned pool by pool, so that an epoch begins at once. Where examples of
the same length are alike, as questions about one passage, small pools keep them out of one batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.tokens import PAD
from regard.data.encoded import Encoded

POOL = 2**17  # examples that are planned at once
LEAST = 0.4  # neither part of a cut is smaller than this share of a batch
FULL = 0.03  # what a batch that is not full costs, as padding

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Named fields of b examples; sequences are padded with PAD at the end."""

    fields: dict[str, Tensor]  # (b, n, …), or (b, …) if the size of the field is fixed
    lengths: dict[str, Tensor]  # of the sequences among them: (b,)
    indices: Tensor  # (b,): which examples of the corpus these are
    idle: bool = False  # nothing is learned from it: a rank without an example of its own takes part with it

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, name: str) -> Tensor:
        return self.fields[name]

    def to(self, device: str | torch.device) -> "Batch":
        """The same batch on a device."""
        parts = self.fields, self.lengths
        fields, lengths = ({name: one.to(device) for name, one in part.items()} for part in parts)
        return replace(self, fields=fields, lengths=lengths, indices=self.indices.to(device))


class Batches:
    """The batches of a corpus, epoch by epoch; the same for the same seed."""

    def __init__(
        self,
        encoded: Encoded,
        tokens: int = 4096,
        seed: int = 0,
        examples: int | None = None,
        pool: int = POOL,
    ):
        if examples is not None and examples < 1:
            raise ValueError(f"examples must be at least 1; got {examples}.")
        longest = int(encoded.lengths.max())
        if tokens < longest:
            raise ValueError(
                f"tokens must be at least {longest}, the length of the longest example; got {tokens}."
            )
        self.encoded, self.tokens, self.seed, self.examples = encoded, tokens, seed, examples
        self.pool = pool

    def epoch(self, k: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of epoch k, without the first `skip`, which are planned but not read."""
        return map(self.batch, islice(self._plan(k), skip, None))

    def count(self, k: int) -> int:
        """How many batches epoch k has."""
        return sum(1 for _ in self._plan(k))

    def padding(self, k: int) -> float:
        """The share of padding among all positions of epoch k, over all sequences."""
        real = positions = 0
        for part in self._plan(k):
            lengths = self.encoded.lengths[part]
            real += int(lengths.sum())
            positions += len(part) * int(lengths.max(0).sum())
        return 1 - real / positions

    def batch(self, indices: Indices) -> Batch:
        """These examples, padded."""
        encoded = self.encoded
        fields = {name: torch.from_numpy(encoded.gather(name, indices, PAD)) for name in encoded.fields}
        lengths = torch.from_numpy(encoded.lengths[indices].astype(np.int64))  # (b, ragged fields)
        of_each = dict(zip(encoded.ragged, lengths.unbind(1), strict=False))
        return Batch(fields, of_each, torch.from_numpy(indices))

    def _plan(self, k: int) -> Iterator[Indices]:
        """Which examples are together, batch by batch."""
        chance = np.random.default_rng([self.seed, k])
        order = chance.permutation(len(self.encoded))
        for pool in np.array_split(order, -(-len(order) // self.pool)):
            lengths = self.encoded.lengths[pool].astype(np.int64)
            parts = list(cut(lengths, self.tokens, self.examples))
            for part in chance.permutation(len(parts)):
                yield pool[parts[part]]


def cut(lengths: NDArray[np.int64], tokens: int, examples: int | None = None) -> Iterator[Indices]:
    """Part examples of these lengths (n, fields) into groups of at most so many positions and examples."""
    todo = [np.arange(len(lengths))]
    while todo:
        group = todo.pop()
        longest = int(lengths[group].max())
        if len(group) * longest <= tokens and len(group) <= (examples or len(group)):
            yield group
        else:
            room = min(tokens, (examples or tokens) * longest)
            cuts = [_best(lengths[group], side, room) for side in range(lengths.shape[1])]
            _, order, place = min(cuts, key=lambda found: found[0])
            todo += [group[order[:place]], group[order[place:]]]


def _best(lengths: NDArray[np.int64], side: int, tokens: int) -> tuple[float, Indices, int]:
    """The best cut across one field: its cost in positions, the examples in order, and how many go left."""
    others = [lengths[:, k] for k in reversed(range(lengths.shape[1])) if k != side]
    order = np.lexsort((*others, lengths[:, side]))
    ordered = lengths[order]
    left = np.maximum.accumulate(ordered)[:-1]  # (n − 1, fields): the longest of the first 1, 2, … examples
    right = np.maximum.accumulate(ordered[::-1])[-2::-1]  # and of the others
    sizes = np.arange(1, len(order))
    filled = np.stack([sizes * left.max(1), (len(order) - sizes) * right.max(1)]) / tokens  # in batches
    cost = sizes * left.sum(1) + (len(order) - sizes) * right.sum(1)
    cost = cost + FULL * tokens * (np.ceil(filled) - filled).sum(0)
    cost = np.where(filled.min(0) >= LEAST, cost, np.inf)
    place = int(cost.argmin()) if np.isfinite(cost).any() else len(sizes) // 2
    return float(cost[place]), order, place + 1
