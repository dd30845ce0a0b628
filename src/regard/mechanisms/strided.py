"""Strided attention of the sparse Transformer: near heads see the last l tokens, far ones every l-th.

    near: |i − j| < l        far: i − j a multiple of l        n √n d with l = √n

Far keys are reordered by their residue modulo l, after which they are sequences of their own
(`factorized.py`). Any row map. `Attended.weights` are (..., heads, m, n), 0 outside the pattern.

Child, Gray, Radford & Sutskever (2019), arXiv:1904.10509, §4.2.
"""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.backends.call import Call
from regard.masks import Causal, as_mask
from regard.mechanisms.factorized import FactorizedCore, Parts, attend_dots, in_blocks, keys_in_blocks
from regard.mechanisms.mechanism import Mechanism, register


class StridedCore(FactorizedCore):
    """Near heads and heads with a stride."""

    def patterns(self, i: Tensor, j: Tensor, stride: int | Tensor) -> tuple[Tensor, Tensor]:
        return (i - j).abs() < stride, (i - j) % stride == 0

    def near(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        n = parts[0].shape[-2]
        a, b, v = (in_blocks(x, stride) for x in parts)  # (..., blocks, l, d)
        blocks, reach = a.shape[-3], range(-1, 1 if causal else 2)
        b, v = (torch.cat([_shifted(x, at) for at in reach], -2) for x in (b, v))
        i = torch.arange(stride, device=a.device).unsqueeze(-1)
        j = torch.arange(-stride, len(reach) * stride - stride, device=a.device)
        band = (j - i).abs() < stride  # (l, 2l or 3l)
        if causal:
            band &= j <= i
        at = torch.arange(blocks, device=a.device).unsqueeze(-1) * stride + j  # (blocks, 2l or 3l)
        real = ((at >= 0) & (at < n)).unsqueeze(-2)  # (blocks, 1, 2l or 3l)
        if shown is None:  # blocks away from the ends share one mask
            cuts, found = sorted({0, 1, max(blocks - 2, 1), blocks}), []
            for start, stop in pairwise(cuts):
                part = (a[..., start:stop, :, :], b[..., start:stop, :, :], v[..., start:stop, :, :])
                inner = start > 0 and stop <= blocks - 2
                found.append(attend_dots(part, call, band if inner else band & real[start:stop]))
            return torch.cat(found, -3).flatten(-3, -2)[..., :n, :]
        kept = keys_in_blocks(shown, stride).unsqueeze(-1)
        seen = band & real & torch.cat([_shifted(kept, at) for at in reach], -2).mT
        return attend_dots((a, b, v), call, seen).flatten(-3, -2)[..., :n, :]

    def far(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        n = parts[0].shape[-2]
        a, b, v = (in_blocks(x, stride).transpose(-3, -2) for x in parts)  # (..., residues, n / l, d)
        real = torch.ones(1, n, dtype=torch.bool, device=parts[0].device) if shown is None else shown
        kept = keys_in_blocks(real, stride).mT.unsqueeze(-2)  # (..., residues, 1, n / l)
        found = attend_dots((a, b, v), call, Causal() & as_mask(kept) if causal else kept)
        return found.transpose(-3, -2).flatten(-3, -2)[..., :n, :]


@register(slope=1.5, maps=True)
class Strided(Mechanism):
    """Multi-head attention with near heads and heads with a stride."""

    core_kind = StridedCore


def _shifted(x: Tensor, by: int) -> Tensor:
    """Block i + by of x (..., blocks, l, d) in the place of block i; zeros where there is none."""
    if by == 0:
        return x
    padded = F.pad(x, (0, 0, 0, 0, max(-by, 0), max(by, 0)))
    return padded[..., max(by, 0) : max(by, 0) + x.shape[-3], :, :]
