"""The base class of masks: which keys each query may attend to, without m × n memory.

True = may be attended to. A mask computes a few rows at a time, or, where every row is one interval of keys,
the two ends of the intervals.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError

BLOCK = 256  # rows of a mask held at once


class Mask:
    """Which of n keys each of m queries may attend to. Join masks with &."""

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        """The rows start to stop as booleans (..., stop − start or 1, n), with `axes` axes before them."""
        lo, hi = self.interval(m, n, axes, device) or _missing(self)
        j = torch.arange(n, device=device)
        lo, hi = _cut(lo, start, stop).unsqueeze(-1), _cut(hi, start, stop).unsqueeze(-1)
        return (j >= lo) & (j < hi)

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """(lo, hi), each (..., m or 1): query i sees lo[i] ≤ j < hi[i]. None if rows are not intervals."""
        return None

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
            first = torch.where(sees, lo, n).amin(
                -1, keepdim=True
            )  # intervals move by at most one key, so their union has no gaps
            last = torch.where(sees, hi, 0).amax(-1, keepdim=True)
            j = torch.arange(n, device=device)
            return (j >= first) & (j < last), sees
        keys, queries = [], []
        for start in range(0, m, BLOCK):
            block = self.rows(start, min(start + BLOCK, m), m, n, axes, device)
            keys.append(block.any(-2))
            queries.append(block.any(-1).expand(*block.shape[:-2], min(start + BLOCK, m) - start))
        return torch.stack(keys).any(0), torch.cat(queries, -1)

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


class And(Mask):
    """What both masks allow."""

    def __init__(self, one: Mask, other: Mask):
        self.one, self.other = one, other

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return self.one.rows(start, stop, m, n, axes, device) & self.other.rows(
            start, stop, m, n, axes, device
        )

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        one, other = self.one.interval(m, n, axes, device), self.other.interval(m, n, axes, device)
        if one is None or other is None:
            return None
        return torch.maximum(one[0], other[0]), torch.minimum(one[1], other[1])

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        self.one.check(batch, m, n)
        self.other.check(batch, m, n)

    def parts(self) -> Iterator[Mask]:
        yield from self.one.parts()
        yield from self.other.parts()

    def lengths(self) -> Tensor | None:
        one, other = self.one.lengths(), self.other.lengths()
        return one if other is None else other if one is None else torch.minimum(one, other)

    def __repr__(self) -> str:
        return f"{self.one} & {self.other}"


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
    raise TypeError(
        "mask must be a boolean tensor or Causal(), Lengths(l), Window(k) joined by &; "
        f"got {type(mask).__name__}."
    )


def _cut(ends: Tensor, start: int, stop: int) -> Tensor:
    return ends if ends.shape[-1] == 1 else ends[..., start:stop]


def _missing(mask: Mask) -> tuple[Tensor, Tensor]:
    raise NotImplementedError(f"{type(mask).__name__} needs rows() or interval().")
