"""How softmax attention is cut into tiles: queries by blocks, for each the keys its mask can reach.

Everything here is (a, b, g, …): two axes of sequences or heads, and one of g queries that share keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import _FlopCounterMode

from regard.kernels.common.operator import is_plain
from regard.masks.mask import Mask

WIDE = 32  # keys in a tile of a mask
DENSE = 0.75  # of the keys from the first to the last: below this the others are left out
TALL, SHORT = 512, 128  # queries of a block; where a mask hides many keys
FULL = 0.7  # of the tiles of a mask: above this hardly any can be skipped
MANY = 1 << 22  # scores of a block where hardly any can be: every block adds to the gradients of all keys
FEW = 1 << 20  # numbers in a tile of scores, where they are written


@dataclass(frozen=True, eq=False)
class Tile:
    """Queries start to stop against some keys: first to last, or those of an index."""

    start: int
    stop: int
    first: int
    last: int
    index: Tensor | None = None

    def keys(self, tensor: Tensor, axis: int = -2) -> Tensor:
        """The part of (..., n, d) that belongs to these keys."""
        if self.index is not None:
            return tensor.index_select(axis, self.index)
        return tensor.narrow(axis, self.first, self.last - self.first)

    @property
    def width(self) -> int:
        return self.last - self.first if self.index is None else len(self.index)


@dataclass(frozen=True, eq=False)
class Layout:
    """The axes of a call as (a, b, g): those that keys and values share are g."""

    batch: torch.Size
    lead: int  # so many axes are a and b

    @staticmethod
    def of(batch: torch.Size, keys: Tensor, values: Tensor, most: int) -> "Layout":
        """With at most so many queries to share keys."""
        axes = lead = len(batch)
        shapes = [(1,) * (axes + 2 - t.dim()) + tuple(t.shape) for t in (keys, values)]
        while lead and batch[lead - 1] != 1 and all(shape[lead - 1] == 1 for shape in shapes):
            lead -= 1
        return Layout(batch, lead if prod(batch[lead:]) <= most else axes)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """a, b, g."""
        *a, b = self.batch[: self.lead] or (1,)
        return prod(a), b, prod(self.batch[self.lead :])

    def shaped(self, tensor: Tensor, inner: int, whole: bool = False) -> Tensor:
        """A tensor (..., inner axes) as (a or 1, b or 1, g or 1, inner axes); with `whole` not 1."""
        own, kept = tensor.shape[tensor.dim() - inner :], tensor.dim() - inner
        tensor = tensor.reshape((1,) * (len(self.batch) - kept) + tuple(tensor.shape))
        spans = (0, max(self.lead - 1, 0)), (max(self.lead - 1, 0), self.lead), (self.lead, len(self.batch))
        wanted: list[int] = []
        sizes: list[int] = []
        for first, last in spans:
            full, now = self.batch[first:last], tensor.shape[first:last]
            some = whole or any(size != 1 for size in now)
            wanted += full if some else now
            sizes.append(prod(full) if some else 1)
        return tensor.expand(*wanted, *own).reshape(*sizes, *own)


def tiles_of(mask: Mask | None, m: int, n: int, axes: int, device: torch.device, *, gaps: bool) -> list[Tile]:
    """The tiles of a call; those that the mask says are empty are left out, unless a tracer is at work."""
    if mask is None or type(m) is not int or type(n) is not int or m * n < TALL * TALL // 2:
        return [Tile(0, m, 0, n)]
    spans = [(start, min(start + SHORT, m)) for start in range(0, m, SHORT)]
    narrow = (
        sum(last - first for first, last in (mask.span(*span, m, n) for span in spans))
        <= FULL * len(spans) * n
    )
    held = [part for one in mask.parts() for part in vars(one).values() if isinstance(part, Tensor)]
    if not (is_plain(*held) or counting()) or device.type != "cpu":
        tall = SHORT if narrow else TALL
        blocks = [(start, min(start + tall, m)) for start in range(0, m, tall)]
        return [Tile(*block, *mask.span(*block, m, n)) for block in blocks]
    found = mask.tiles(SHORT, WIDE, m, n, axes, device)
    full = int(found.sum()) > FULL * found.numel()
    tall = max(TALL, MANY // n // SHORT * SHORT) if full else SHORT
    if tall > SHORT:
        found = torch.stack([part.any(0) for part in found.split(tall // SHORT)])
    return [_tile(tall * at, min(tall * at + tall, m), row, n, gaps) for at, row in enumerate(found)]


def counting() -> bool:
    """Whether nothing but torch's FLOP counter looks on: it changes no number."""
    modes = _get_current_dispatch_mode_stack()
    return (
        bool(modes)
        and not torch.compiler.is_compiling()
        and all(isinstance(mode, _FlopCounterMode) for mode in modes)
    )


def _tile(start: int, stop: int, row: Tensor, n: int, gaps: bool) -> Tile:
    at = row.nonzero().squeeze(-1)
    if not len(at):
        return Tile(start, stop, 0, 0)
    first, last = int(at[0]), int(at[-1]) + 1
    if not gaps or len(at) > DENSE * (last - first):
        return Tile(start, stop, first * WIDE, min(last * WIDE, n))
    index = (at.unsqueeze(-1) * WIDE + torch.arange(WIDE)).flatten()
    index = index[index < n]
    return Tile(start, stop, int(index[0]), int(index[-1]) + 1, index)


def pieces(a: int, b: int, numbers: int) -> Iterator[tuple[int, slice]]:
    """(i, some of b) so that a tile of so many numbers each stays small."""
    step = max(1, min(b, FEW // max(numbers, 1)))
    for i in range(a):
        for j in range(0, b, step):
            yield i, slice(j, min(j + step, b))
