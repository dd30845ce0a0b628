"""The base class of masks: which keys each query may attend to, without m × n memory.

True = may be attended to. A mask computes a few rows at a time, or, where every row is one interval of keys,
the two ends of the intervals. It can also say where nothing is to be seen, so that backends skip it: `span`
from the sizes alone, `tiles` from what the mask holds.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import DtypeError, ShapeError
from regard.core.names import refuse_class
from regard.kernels.common.booleans import any_of, unless_all

BLOCK = 256  # rows of a mask held at once


class Mask:
    """Which of n keys each of m queries may attend to. Join masks with & (both) and | (either); ~ inverts."""

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        """The rows start to stop as booleans (..., stop − start or 1, n), with `axes` axes before them."""
        lo, hi = self.interval(m, n, axes, device) or _missing(self)
        j = torch.arange(n, device=device)
        lo, hi = _cut(lo, start, stop).unsqueeze(-1), _cut(hi, start, stop).unsqueeze(-1)
        return (j >= lo) & (j < hi)

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """(lo, hi), each (..., m or 1): query i sees lo[i] ≤ j < hi[i]. None if rows are not intervals."""
        return None

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        """Columns first to last of rows start to stop: (..., stop − start or 1, last − first)."""
        ends = self.interval(m, n, axes, device)
        if ends is None:
            return self.rows(start, stop, m, n, axes, device)[..., first:last]
        lo, hi = (_cut(end, start, stop).unsqueeze(-1) for end in ends)
        j = torch.arange(first, last, device=device)
        return (j >= lo) & (j < hi)

    def span(self, start: int, stop: int, m: int, n: int) -> tuple[int, int]:
        """The first key, and one past the last, that queries start to stop could see, by sizes alone."""
        return 0, n

    def offsets(self, n: int) -> tuple[int, int] | None:
        """(a, b) if a query at position p sees keys p + a to p + b and no others; None if not."""
        return None

    def tiles(self, tall: int, wide: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        """Which tiles of tall × wide hold anything in any sequence: (⌈m / tall⌉, ⌈n / wide⌉).

        A tile that is said to hold something may be empty, not the other way round.
        """
        count = -(-n // wide)
        ends = self.interval(m, n, axes, device)
        if ends is None:
            found = []
            for start in range(0, m, tall):
                keys = any_of(self.rows(start, min(start + tall, m), m, n, axes, device), -2)
                keys = F.pad(any_of(keys.reshape(-1, n), 0), (0, count * wide - n))
                found.append(keys.view(count, wide).any(-1))
            return torch.stack(found) if found else torch.zeros(0, count, dtype=torch.bool, device=device)
        lo, hi = torch.broadcast_tensors(*ends)
        sees = hi > lo
        blocks = -(-m // tall)
        if lo.shape[-1] > 1:
            beyond = (0, blocks * tall - m)
            lo = F.pad(torch.where(sees, lo, n), beyond, value=n).unflatten(-1, (blocks, tall)).amin(-1)
            hi = F.pad(torch.where(sees, hi, 0), beyond).unflatten(-1, (blocks, tall)).amax(-1)
        at = torch.arange(count, device=device) * wide
        tile = (lo.unsqueeze(-1) < at + wide) & (hi.unsqueeze(-1) > at)  # (..., blocks or 1, count)
        tile &= (hi > lo).unsqueeze(-1)
        found_any: Tensor = tile.reshape(-1, *tile.shape[-2:]).any(0)
        return found_any.expand(blocks, count)

    def seen(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Which keys (..., n) any query may attend to, and which queries (..., m or 1) have any key.

        None stands for all of them.
        """
        if m == 0:
            return None, None
        ends = self.interval(m, n, axes, device)
        if ends is not None:
            lo, hi = ends
            sees = hi > lo  # (..., m or 1)
            if sees.shape[-1] == 1:
                j = torch.arange(n, device=device)
                return unless_all((j >= lo) & (j < hi)), unless_all(sees)
            lo, hi = (torch.where(sees, end, 0).long() for end in (lo, hi))
            change = torch.zeros(*sees.shape[:-1], n + 1, dtype=torch.int32, device=device)
            one = torch.ones((), dtype=torch.int32, device=device).expand(sees.shape)
            change = change.scatter_add(-1, lo, one).scatter_add(-1, hi, -one)
            begun = change.cumsum(-1)[..., :-1] > 0  # and not ended before j
            return unless_all(begun), unless_all(sees)
        keys, queries = [], []
        for start in range(0, m, BLOCK):
            block = self.rows(start, min(start + BLOCK, m), m, n, axes, device)
            keys.append(any_of(block, -2))
            queries.append(any_of(block, -1).expand(*block.shape[:-2], min(start + BLOCK, m) - start))
        return unless_all(torch.stack(keys).any(0)), unless_all(torch.cat(queries, -1))

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        """Raise if this is no mask for weights (*batch, m, n)."""

    def parts(self) -> Iterator["Mask"]:
        """The masks this one is joined from."""
        yield self

    def lengths(self) -> Tensor | None:
        """The number of real keys, or None if the mask does not know it."""
        return None

    def __and__(self, other: "Mask | Tensor") -> "Mask":
        return And(self, as_mask(other))

    __rand__ = __and__

    def __or__(self, other: "Mask | Tensor") -> "Mask":
        return Or(self, as_mask(other))

    __ror__ = __or__

    def __invert__(self) -> "Mask":
        return Not(self)


class Joined(Mask):
    """Two masks as one."""

    def __init__(self, one: Mask, other: Mask):
        self.one, self.other = one, other

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        self.one.check(batch, m, n)
        self.other.check(batch, m, n)

    def parts(self) -> Iterator[Mask]:
        yield from self.one.parts()
        yield from self.other.parts()


class And(Joined):
    """What both masks allow."""

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        one, other = (mask.rows(start, stop, m, n, axes, device) for mask in (self.one, self.other))
        return one & other

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        where = start, stop, first, last, m, n, axes, device
        return self.one.cells(*where) & self.other.cells(*where)

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        one, other = self.one.interval(m, n, axes, device), self.other.interval(m, n, axes, device)
        if one is None or other is None:
            return None
        return torch.maximum(one[0], other[0]), torch.minimum(one[1], other[1])

    def span(self, start: int, stop: int, m: int, n: int) -> tuple[int, int]:
        (a, b), (c, d) = self.one.span(start, stop, m, n), self.other.span(start, stop, m, n)
        return max(a, c), max(a, c, min(b, d))

    def offsets(self, n: int) -> tuple[int, int] | None:
        one, other = self.one.offsets(n), self.other.offsets(n)
        return None if one is None or other is None else (max(one[0], other[0]), min(one[1], other[1]))

    def tiles(self, tall: int, wide: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        if self.interval(m, n, axes, device) is not None:
            return super().tiles(tall, wide, m, n, axes, device)
        one, other = (mask.tiles(tall, wide, m, n, axes, device) for mask in (self.one, self.other))
        return one & other

    def lengths(self) -> Tensor | None:
        one, other = self.one.lengths(), self.other.lengths()
        return one if other is None else other if one is None else torch.minimum(one, other)

    def __repr__(self) -> str:
        return " & ".join(f"({one})" if isinstance(one, Or) else f"{one}" for one in (self.one, self.other))


class Or(Joined):
    """What at least one of two masks allows."""

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        one, other = (mask.rows(start, stop, m, n, axes, device) for mask in (self.one, self.other))
        return one | other

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        where = start, stop, first, last, m, n, axes, device
        return self.one.cells(*where) | self.other.cells(*where)

    def span(self, start: int, stop: int, m: int, n: int) -> tuple[int, int]:
        (a, b), (c, d) = self.one.span(start, stop, m, n), self.other.span(start, stop, m, n)
        return min(a, c), max(b, d)

    def tiles(self, tall: int, wide: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        one, other = (mask.tiles(tall, wide, m, n, axes, device) for mask in (self.one, self.other))
        return one | other

    def lengths(self) -> Tensor | None:
        one, other = self.one.lengths(), self.other.lengths()
        return None if one is None or other is None else torch.maximum(one, other)

    def __repr__(self) -> str:
        return f"{self.one} | {self.other}"


class Not(Mask):
    """What a mask does not allow."""

    def __init__(self, mask: Mask):
        self.mask = mask

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return ~self.mask.rows(start, stop, m, n, axes, device)

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        return ~self.mask.cells(start, stop, first, last, m, n, axes, device)

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        self.mask.check(batch, m, n)

    def parts(self) -> Iterator[Mask]:
        yield from self.mask.parts()

    def __invert__(self) -> Mask:
        return self.mask

    def __repr__(self) -> str:
        return f"~({self.mask})" if isinstance(self.mask, Joined) else f"~{self.mask}"


class Given(Mask):
    """A boolean tensor that broadcasts to (..., m, n)."""

    def __init__(self, allowed: Tensor):
        if allowed.dtype != torch.bool:
            hint = (
                "A float mask is a score term: use score + regard.positions.Bias(mask)"
                if allowed.is_floating_point()
                else "Use mask.bool() if 1 means may be attended to, mask == 0 if it means hidden"
            )
            raise DtypeError(f"mask must be boolean, True = may be attended to; got {allowed.dtype}. {hint}.")
        self.allowed = allowed if allowed.dim() > 1 else allowed.expand(1, *allowed.shape or (1,))

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        self.check(self.allowed.shape[:-2], m, n)
        block = self.allowed if self.allowed.shape[-2] == 1 else self.allowed[..., start:stop, :]
        return block.expand(*block.shape[:-1], n)

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        shape, wanted = self.allowed.shape, (*batch, m, n)
        if len(shape) <= len(wanted) and all(
            a in (1, b) for a, b in zip(reversed(shape), reversed(wanted), strict=False)
        ):
            return
        heads = ", None" * (len(batch) - 1)
        hint = f"A mask of keys alone, (b, n), becomes mask[:{heads}, None, :]."
        if heads and len(shape) == 3:
            hint = f"A mask for each sequence, (b, m, n), becomes mask[:{heads}]."
        raise ShapeError(f"mask must broadcast to (..., m, n) = {wanted}; got {tuple(shape)}. {hint}")

    def __repr__(self) -> str:
        return f"mask{tuple(self.allowed.shape)}"


def grows(mask: Mask, m: int, n: int, axes: int, device: torch.device) -> bool:
    """Whether a mask with a boolean tensor lets queries in their order see more and more keys, or fewer.

    Queries that see nothing do not count.
    """
    if not any(isinstance(part, Given) for part in mask.parts()):
        return False
    visible = mask.rows(0, m, m, n, axes, device)  # (..., m or 1, n)
    sizes = visible.sum(-1)  # (..., m or 1)
    some = sizes > 0
    differ = torch.where(some, sizes, n).amin(-1) < sizes.amax(-1)  # (...)
    up, down = (
        ((rows.int().cumsum(-2) > 0) == rows).all(-1) | ~rows.any(-1) for rows in (visible, visible.flip(-2))
    )
    return bool((differ & (up.all(-1) | down.all(-1))).any())


def as_mask(mask: Mask | Tensor) -> Mask:
    """A mask as it is; a boolean tensor as a mask."""
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor):
        return Given(mask)
    refuse_class("mask", mask)
    raise TypeError(
        "mask must be a boolean tensor or Causal(), Lengths(l), Window(k), … joined by & and |; "
        f"got {type(mask).__name__}."
    )


def _cut(ends: Tensor, start: int, stop: int) -> Tensor:
    return ends if ends.shape[-1] == 1 else ends[..., start:stop]


def _missing(mask: Mask) -> tuple[Tensor, Tensor]:
    raise NotImplementedError(f"{type(mask).__name__} needs rows() or interval().")
