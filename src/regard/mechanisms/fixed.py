"""Fixed attention of the sparse Transformer: near heads see their block, far ones the ends of all.

    near: ⌊i/l⌋ = ⌊j/l⌋        far: the last c tokens of every other block, and oneself        n √n d, l = √n

The ends of blocks are gathered (`factorized.py`). Under a causal mask they are those of earlier blocks. Any
row map. `Attended.weights` are (..., heads, m, n), 0 outside the pattern.

Child, Gray, Radford & Sutskever (2019), arXiv:1904.10509, §4.2.
"""

import torch
from torch import Tensor

from regard.attention import attend
from regard.backends.call import Call
from regard.maps.table import facts_of
from regard.masks import Causal, Mask, as_mask
from regard.mechanisms.factorized import FactorizedCore, Parts, attend_dots, in_blocks, keys_in_blocks
from regard.mechanisms.mechanism import Mechanism, at_least_one, register


class Ends(Mask):
    """Of keys at the ends of blocks, those of other blocks; under a causal mask, of earlier ones."""

    def __init__(self, ends: Tensor, stride: int, causal: bool):
        self.ends, self.stride, self.causal = ends, stride, causal

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return self.cells(start, stop, 0, n, m, n, axes, device)

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        i = torch.arange(start, stop, device=device).unsqueeze(-1) // self.stride
        j = self.ends[first:last] // self.stride
        return j < i if self.causal else j != i


class FixedCore(FactorizedCore):
    """Heads of blocks and heads of their ends."""

    def __init__(self, each: int, heads: int, *, stride: int | None = None, summary: int = 2):
        super().__init__(each, heads, stride=stride)
        at_least_one(self.name, summary=summary)
        if stride is not None and summary > stride:
            raise ValueError(f"fixed: 1 ≤ summary ≤ stride; got summary={summary}, stride={stride}.")
        self.summary = summary

    def patterns(self, i: Tensor, j: Tensor, stride: int | Tensor) -> tuple[Tensor, Tensor]:
        near = i // stride == j // stride
        return near, ((j % stride >= stride - self.summary) & ~near) | (i == j)

    def near(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        real = (
            torch.ones(1, parts[0].shape[-2], dtype=torch.bool, device=parts[0].device)
            if shown is None
            else shown
        )
        kept = keys_in_blocks(real, stride).unsqueeze(-2)  # (..., blocks, 1, l)
        a, b, v = (in_blocks(x, stride) for x in parts)
        found = attend_dots((a, b, v), call, Causal() & as_mask(kept) if causal else kept)
        return found.flatten(-3, -2)[..., : parts[0].shape[-2], :]

    def far(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        n = parts[0].shape[-2]
        a, b, v = (in_blocks(x, stride) for x in parts)  # (..., blocks, l, d)
        blocks = a.shape[-3]
        inner = torch.arange(stride, device=a.device)
        start = torch.arange(blocks, device=a.device).unsqueeze(-1) * stride  # (blocks, 1)
        first = max(stride - self.summary, 0)
        count = n // stride * (stride - first) + max(n % stride - first, 0)  # those that are tokens
        ends = (start + inner[first:]).flatten()[:count]
        far = ends // stride < start // stride if causal else ends // stride != start // stride
        facts = facts_of(call.map)
        if facts is not None and facts.simplex and not call.dropout:
            if (
                causal or 2 * stride**2 < n
            ):  # the ends of many blocks, copied for each block, would be more than n
                return self._beside(parts, ends, Ends(ends, stride, causal), shown, call)
            return self._beside_blocks(parts, ends, far.unsqueeze(-2), stride, shown, call)
        own = torch.eye(stride, dtype=torch.bool, device=a.device).expand(blocks, -1, -1)
        seen = torch.cat([far.unsqueeze(-2).expand(-1, stride, -1), own], -1)  # (blocks, l, ends + l)
        b, v = (
            torch.cat([whole[..., ends, :].unsqueeze(-3).expand(*x.shape[:-2], len(ends), -1), x], -2)
            for whole, x in zip(parts[1:], (b, v), strict=True)
        )
        if shown is not None:
            kept = keys_in_blocks(shown, stride)  # (..., blocks, l)
            at_ends = shown.squeeze(-2)[..., ends].unsqueeze(-2).expand(*kept.shape[:-1], -1)
            seen = seen & torch.cat([at_ends, kept], -1).unsqueeze(-2)
        return attend_dots((a, b, v), call, seen).flatten(-3, -2)[..., :n, :]

    def _beside_blocks(
        self, parts: Parts, ends: Tensor, mask: Tensor, stride: int, shown: Tensor | None, call: Call
    ) -> Tensor:
        """`_beside` with the keys of each block, so that a mask is (blocks, 1, ends)."""
        own = self._own(parts, shown)
        if shown is not None:
            mask = mask & shown[..., ends].unsqueeze(-3)
        keys, values = self._at_ends(parts, ends)
        a = in_blocks(parts[0], stride)
        keys, values = (x.unsqueeze(-3).expand(*a.shape[:-2], *x.shape[-2:]) for x in (keys, values))
        sink = in_blocks(own.unsqueeze(-1), stride).squeeze(-1)  # (..., blocks, l)
        found = attend(a, keys, values, score="dot", map=call.map, mask=mask, sink=sink).context
        return self._rest(found.flatten(-3, -2)[..., : parts[0].shape[-2], :], parts, shown)

    def _beside(self, parts: Parts, ends: Tensor, mask: Mask, shown: Tensor | None, call: Call) -> Tensor:
        """The same with oneself as a sink: what the ends leave of the weight belongs to one's own value."""
        own = self._own(parts, shown)
        if shown is not None:
            mask = mask & shown[..., ends]
        keys, values = self._at_ends(parts, ends)
        found = attend(parts[0], keys, values, score="dot", map=call.map, mask=mask, sink=own).context
        return self._rest(found, parts, shown)

    def _own(self, parts: Parts, shown: Tensor | None) -> Tensor:
        """The score of oneself, (..., n)."""
        own = (parts[0] * parts[1]).sum(-1)
        return own if shown is None else own.masked_fill(~shown.squeeze(-2), -torch.inf)

    def _at_ends(self, parts: Parts, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values at the ends; values with a 1, whose sum is the weight of the ends."""
        _, b, v = (x[..., ends, :] for x in parts)
        return b, torch.cat([v, torch.ones_like(v[..., :1])], -1)

    def _rest(self, found: Tensor, parts: Parts, shown: Tensor | None) -> Tensor:
        """What the weight of the ends (found[..., -1]) leaves, for oneself."""
        left = 1 - found[..., -1:]
        if shown is not None:
            left = torch.where(shown.mT, left, 0)
        return found[..., :-1] + left * parts[2]


@register(slope=1.5, maps=True)
class Fixed(Mechanism):
    """Multi-head attention with heads of blocks and heads of their ends."""

    core_kind = FixedCore
