"""Sinkhorn attention: blocks are matched by a learned sorting; each sees itself and its match.

    R = X̄ W Ȳᵀ of the blocks' mean queries and keys,   S = Sinkhorn(R),   s(b) = argmax S_b
    z = softmax(q [K_b; K_s(b)]ᵀ / √d) [V_b; V_s(b)]        n · block · d

S is doubly stochastic over the blocks that hold any token: padding is no part of the matching. It is
rounded to one block in the forward pass (straight-through: the gradient is that of S), so that the cost stays
linear. Any n, by padding; one block is full attention. Not causal: a block is sorted by all of its tokens.

`Attended.weights` are (..., heads, m, n), 0 outside the two blocks.

Tay et al. (2020), "Sparse Sinkhorn Attention", arXiv:2002.11296, §3. Departs from the paper: the scores of
blocks are a bilinear form, for any number of them; sorting is hard in the forward pass, without noise.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention import attend
from regard.backends.call import Call
from regard.core.shapes import widened
from regard.maps.table import each_row_alone
from regard.masks import Blocks
from regard.mechanisms.factorized import in_blocks, keys_in_blocks
from regard.mechanisms.mechanism import Core, Heads, Mechanism, at_least_one, joined, register

NOWHERE = -1e9


class SinkhornCore(Core):
    """Attention to one's own block and the one that is sorted to it."""

    def __init__(self, each: int, heads: int, *, block: int = 64, iterations: int = 5):
        super().__init__(each, heads)
        at_least_one(self.name, block=block, iterations=iterations)
        self.block, self.iterations = block, iterations
        self.W = nn.Parameter(torch.eye(each).repeat(heads, 1, 1))  # of each head

    def sorting(self, call: Call, shown: Tensor | None) -> tuple[Tensor, Tensor]:
        """Which block is sorted to each, (..., heads, blocks), and its share in S."""
        a, b = self.factors(call)
        n, size = call.n, self.block
        real = torch.ones(1, n, dtype=torch.bool, device=a.device) if shown is None else shown
        real = keys_in_blocks(real, size).unsqueeze(-1)  # (..., blocks, block, 1)
        count = real.sum(-2).clamp(min=1)
        x, y = (
            torch.where(real, in_blocks(t, size), 0).sum(-2) / count for t in (a, b)
        )  # (..., heads, blocks, each)
        there = real.any(-2).squeeze(-1)  # (..., blocks)
        log = x @ self.W.to(x.dtype) @ y.mT  # (..., heads, blocks, blocks)
        pairs = there.unsqueeze(-1) & there.unsqueeze(-2)
        log = log.masked_fill(~pairs, NOWHERE)
        for _ in range(self.iterations):
            log = log.log_softmax(-2).masked_fill(~pairs, NOWHERE)
            log = log.log_softmax(-1).masked_fill(~pairs, NOWHERE)
        top, at = log.max(-1)
        return at, top.exp()

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        call = heads.call
        blocks = -(-call.n // self.block)
        with torch.no_grad():
            at, _ = self.sorting(call, shown)
        own = torch.arange(blocks, device=at.device)
        table = (own == at.unsqueeze(-1)) | (own == own.unsqueeze(-1))
        return replace(call, mask=joined(Blocks(table, self.block), call.mask))

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        n, size = call.n, self.block
        if n <= size:
            return None
        at, share = self.sorting(call, shown)
        factor = (1 + share - share.detach())[..., None, None]
        a, b, v = (in_blocks(t, size) for t in (*self.factors(call), widened(call.values)))
        index = at[..., None, None]
        keys, values = (
            torch.cat([t, factor * t.gather(-3, index.expand(*at.shape, *t.shape[-2:]))], -2) for t in (b, v)
        )
        real = torch.ones(1, n, dtype=torch.bool, device=a.device) if shown is None else shown
        real = keys_in_blocks(real, size).expand(*at.shape, size)  # (..., heads, blocks, block)
        other = real.gather(-2, at.unsqueeze(-1).expand_as(real))
        other = other & (at != torch.arange(at.shape[-1], device=at.device)).unsqueeze(-1)
        seen = torch.cat([real, other], -1).unsqueeze(-2)
        parts = [a, keys, values, seen]
        by_head = not each_row_alone(call.map)  # maps expect heads before (m, n)
        if by_head:
            parts = [t.transpose(-4, -3) for t in parts]
        a, keys, values, seen = parts
        found = attend(a, keys, values, score="dot", map=call.map, mask=seen, dropout=call.dropout).context
        found = found.transpose(-4, -3) if by_head else found
        return found.flatten(-3, -2)[..., :n, :]

    def extra_repr(self) -> str:
        return f"block={self.block}"


@register(maps=True, sorts=True, why_not_causal="a block is sorted by all of its tokens, later ones too")
class Sinkhorn(Mechanism):
    """Multi-head attention to sorted blocks."""

    core_kind = SinkhornCore
