"""Attention of blocks of queries to a few blocks of keys each, which are gathered."""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import attend
from regard.backends.call import Call
from regard.core.shapes import widened
from regard.mechanisms.mechanism import Pattern


def padded(x: Tensor, size: int) -> Tensor:
    """x (..., n, d) with zeros behind it, so that blocks of this size divide its length."""
    return F.pad(x, (0, 0, 0, -x.shape[-2] % size))


def attend_blocks(
    call: Call,
    factors: tuple[Tensor, Tensor],
    size: int,
    columns: Tensor,
    pattern: Pattern | None,
    *,
    causal: bool,
    shown: Tensor | None,
    first: int = 0,
) -> Tensor:
    """Context (..., n, d) of queries in blocks of `size`, each with the key blocks `columns` say.

    These are (..., blocks, k); −1 is no block. The first `first` keys are seen by all queries besides, and
    are left out of the blocks. Within its blocks a query sees what the pattern says, without one all.
    """
    (a, b), v, n = factors, widened(call.values), call.n
    a, b, v = (padded(t, size).unflatten(-2, (-1, size)) for t in (a, b, v))  # (..., blocks, size, d)
    there = columns.clamp(min=0)
    keys, values = (_gathered(t, there) for t in (b, v))  # (..., blocks, k · size, d)
    inner = torch.arange(size, device=a.device)
    i = torch.arange(columns.shape[-2], device=a.device).unsqueeze(-1) * size + inner  # (blocks, size)
    j = (there.unsqueeze(-1) * size + inner).flatten(-2)  # (blocks, k · size)
    real = (columns >= 0).repeat_interleave(size, -1) & (j < n) & (j >= first)
    if first:
        head = [t.flatten(-3, -2)[..., :first, :].unsqueeze(-3) for t in (b, v)]
        keys, values = (
            torch.cat([one.expand(*t.shape[:-2], first, -1), t], -2)
            for one, t in zip(head, (keys, values), strict=True)
        )
        j = torch.cat([torch.arange(first, device=a.device).expand(*j.shape[:-1], first), j], -1)
        real = F.pad(real, (first, 0), value=True)
    seen = real.unsqueeze(-2)  # (..., blocks, size or 1, keys)
    if pattern is not None:
        seen = seen & pattern.sees(i.unsqueeze(-1), j.unsqueeze(-2), n)
    if causal:
        seen = seen & (j.unsqueeze(-2) <= i.unsqueeze(-1))
    if shown is not None:
        kept = F.pad(shown.squeeze(-2), (0, -n % size))  # (..., n)
        while kept.dim() < j.dim() - 1:
            kept = kept.unsqueeze(0)
        kept = kept.expand(*torch.broadcast_shapes(kept.shape[:-1], j.shape[:-2]), -1)
        seen = seen & kept.gather(-1, j.expand(*kept.shape[:-1], *j.shape[-2:]).flatten(-2)).view(
            *kept.shape[:-1], *j.shape[-2:]
        ).unsqueeze(-2)
    found = attend(a, keys, values, score="dot", map=call.map, mask=seen, dropout=call.dropout).context
    return found.flatten(-3, -2)[..., :n, :]


def _gathered(t: Tensor, there: Tensor) -> Tensor:
    """Blocks `there` (..., blocks, k) of t (..., blocks, size, d): (..., blocks, k · size, d)."""
    if there.dim() == 2:
        return t[..., there, :, :].flatten(-3, -2)
    index = there.expand(*t.shape[:-3], *there.shape[-2:]).flatten(-2)[..., None, None]
    chosen = t.gather(-3, index.expand(*index.shape[:-2], *t.shape[-2:]))
    found: Tensor = chosen.unflatten(-3, there.shape[-2:]).flatten(-3, -2)
    return found


def around(blocks: int, reach: int, causal: bool, device: torch.device) -> Tensor:
    """The numbers of the blocks near each block, (blocks, 2 · reach + 1, causal: reach + 1); −1: none."""
    near = torch.arange(-reach, 1 if causal else reach + 1, device=device)
    found = torch.arange(blocks, device=device).unsqueeze(-1) + near
    return torch.where((found >= 0) & (found < blocks), found, -1)
