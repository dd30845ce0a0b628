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
from regard.masks import Causal
from regard.mechanisms.factorized import FactorizedCore, Parts, attend_dots, in_blocks, keys_in_blocks
from regard.mechanisms.mechanism import Mechanism, at_least_one, register


class FixedCore(FactorizedCore):
    """Heads of blocks and heads of their ends."""

    def __init__(self, each: int, heads: int, *, stride: int | None = None, summary: int = 2):
        super().__init__(each, heads, stride=stride)
        at_least_one(self.name, summary=summary)
        if stride is not None and summary > stride:
            raise ValueError(f"fixed: 1 ≤ summary ≤ stride; got summary={summary}, stride={stride}.")
        self.summary = summary

    def patterns(self, i: Tensor, j: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        near = i // stride == j // stride
        return near, ((j % stride >= stride - self.summary) & ~near) | (i == j)

    def near(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        real = torch.ones(1, call.n, dtype=torch.bool, device=parts[0].device) if shown is None else shown
        kept = keys_in_blocks(real, stride).unsqueeze(-2)  # (..., blocks, 1, l)
        a, b, v = (in_blocks(x, stride) for x in parts)
        found = attend_dots((a, b, v), call, Causal() & kept if causal else kept)
        return found.flatten(-3, -2)[..., : call.n, :]

    def far(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        n = call.n
        a, b, v = (in_blocks(x, stride) for x in parts)  # (..., blocks, l, d)
        blocks = a.shape[-3]
        inner = torch.arange(stride, device=a.device)
        start = torch.arange(blocks, device=a.device).unsqueeze(-1) * stride  # (blocks, 1)
        ends = (start + inner[max(stride - self.summary, 0) :]).flatten()
        ends = ends[ends < n]
        far = ends // stride < start // stride if causal else ends // stride != start // stride
        facts = facts_of(call.map)
        if facts is not None and facts.simplex and not facts.neighbours and not call.dropout:
            return self._beside(parts, ends, far.unsqueeze(-2), stride, shown, call)
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

    def _beside(
        self, parts: Parts, ends: Tensor, far: Tensor, stride: int, shown: Tensor | None, call: Call
    ) -> Tensor:
        """The same with oneself as a sink: what the ends leave of the weight belongs to one's own value."""
        a, b, v = parts
        own = (a * b).sum(-1, keepdim=True)  # (..., n, 1)
        mask = far  # (blocks, 1, ends)
        if shown is not None:
            own = own.masked_fill(~shown.mT, -torch.inf)
            mask = mask & shown.squeeze(-2)[..., ends].unsqueeze(-2).unsqueeze(-2)
        own = in_blocks(own, stride).squeeze(-1)  # (..., blocks, l)
        ones = torch.ones_like(v[..., :1])
        keys, values = (
            x[..., ends, :].unsqueeze(-3).expand(*own.shape[:-1], len(ends), -1)
            for x in (b, torch.cat([v, ones], -1))
        )
        seen = attend(in_blocks(a, stride), keys, values, score="dot", map=call.map, mask=mask, sink=own)
        found = seen.context.flatten(-3, -2)[..., : call.n, :]
        left = 1 - found[..., -1:]
        if shown is not None:
            left = torch.where(shown.mT, left, 0)
        return found[..., :-1] + left * v


@register(slope=1.5, maps=True)
class Fixed(Mechanism):
    """Multi-head attention with heads of blocks and heads of their ends."""

    core_kind = FixedCore
