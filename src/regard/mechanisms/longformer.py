"""Longformer: a window for every token, and a few global tokens that see, and are seen by, all.

    z_i = attend(q_i, K, V; |i − j| ≤ w or j global)             ordinary tokens
    z_i = attend(q′_i, K′, V′)                                   global ones, with projections of their own

The first `tokens` of a sequence are global, for instance one that is read by a classifier. They look both
ways, so that a causal mask cannot be honoured. The projections q′, K′, V′ begin as copies of the others. Any
row map. With a window of n or more and no global token it is full attention.

`Attended.weights` are (..., heads, m, n); the rows of global tokens are those of their own projections.

Beltagy, Peters & Cohan (2020), "Longformer: The Long-Document Transformer", arXiv:2004.05150, §3.1.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended, attend
from regard.backends.call import Call
from regard.core.shapes import widened
from regard.mechanisms.key_blocks import around, attend_blocks
from regard.mechanisms.mechanism import Core, Heads, Mechanism, Pattern, at_least_one, joined, register
from regard.scores import ScaledDot


class WindowAndFirst(Pattern):
    """|i − j| ≤ window, or one of the two among the first tokens."""

    def __init__(self, window: int, tokens: int):
        self.window, self.tokens = window, tokens

    def sees(self, i: Tensor, j: Tensor, n: int) -> Tensor:
        return ((i - j).abs() <= self.window) | (j < self.tokens) | (i < self.tokens)


class LongformerCore(Core):
    """Attention within a window and to global tokens."""

    def __init__(self, each: int, heads: int, *, window: int = 64, tokens: int = 1):
        super().__init__(each, heads)
        at_least_one(self.name, window=window)
        if tokens < 0:
            raise ValueError(f"longformer: tokens must be at least 0; got {tokens}.")
        self.window, self.tokens = window, tokens
        width = each * heads
        if tokens:
            self.G_q, self.G_k, self.G_v = (nn.Linear(width, width) for _ in range(3))

    def copy_projections(self, weights: tuple[Tensor, ...], biases: tuple[Tensor | None, ...]) -> None:
        """Let the projections of global tokens begin as copies of the others."""
        if not self.tokens:
            return
        with torch.no_grad():
            for layer, weight, bias in zip((self.G_q, self.G_k, self.G_v), weights, biases, strict=True):
                layer.weight.copy_(weight)
                nn.init.zeros_(layer.bias) if bias is None else layer.bias.copy_(bias)

    def forward(self, heads: Heads) -> Attended:
        """Attend; values are [v; v′], of which global rows read the second half."""
        then, tokens, each = heads.then, min(self.tokens, heads.call.n), self.each

        def halves(z: Tensor) -> Tensor:
            if z.shape[-1] == each:
                return then(z)
            return then(torch.cat([z[..., :tokens, each:], z[..., tokens:, :each]], -2))

        return super().forward(replace(heads, then=halves))

    def _projected(self, heads: Heads) -> tuple[Tensor, Tensor, Tensor]:
        """q′ of the global tokens (..., heads, tokens, each), K′ and V′ of all."""
        x, call = heads.inputs[0], heads.call
        q, k, v = (layer(x) for layer in (self.G_q, self.G_k, self.G_v))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for t in (q, k, v))
        a, b = replace(call, query=q, keys=k, values=v).factors()
        return a[..., : self.tokens, :], b, widened(v)

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        call, tokens = heads.call, min(self.tokens, heads.call.n)
        mask = joined(WindowAndFirst(self.window, self.tokens), call.mask)
        if not tokens:
            return replace(call, mask=mask)
        (a, b), (q, k, v) = self.factors(call), self._projected(heads)
        rest = F.pad(a[..., tokens:, :], (0, a.shape[-1]))
        query = torch.cat([F.pad(q, (a.shape[-1], 0)), rest], -2)
        keys, values = torch.cat([b, k], -1), torch.cat([widened(call.values), v], -1)
        return replace(
            call, query=query, keys=keys, values=values, score=ScaledDot(1.0), mask=mask, place=None
        )

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        if not heads.whole or call.n <= self.window:
            return None
        ordinary, tokens = heads.call, min(self.tokens, heads.call.n)
        factors = self.factors(ordinary)
        pattern = WindowAndFirst(self.window, self.tokens)
        columns = around(-(-call.n // self.window), 1, False, call.query.device)
        found = attend_blocks(
            ordinary, factors, self.window, columns, pattern, causal=False, shown=shown, first=tokens
        )
        if not tokens:
            return found
        q, k, v = self._projected(heads)
        every = attend(q, k, v, score="dot", map=call.map, mask=shown, dropout=call.dropout).context
        return torch.cat([every, found[..., tokens:, :]], -2)

    def extra_repr(self) -> str:
        return f"window={self.window}, tokens={self.tokens}"


@register(maps=True, why_not_causal="its global tokens look both ways")
class Longformer(Mechanism):
    """Multi-head attention within a window and to global tokens."""

    core_kind = LongformerCore
