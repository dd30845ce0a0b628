"""Linformer: keys and values are projected along the sequence, from n to k.

    z = softmax(q (E K)ᵀ / √d) F V        E, F: k × n, learned, for all heads alike        k n d

The projection mixes all tokens, later ones too: no causal mask can be honoured. Padding is 0 before it. Of a
projection for `longest` tokens shorter inputs take the first columns. With k = n and E = F = I it is full
attention.

`Attended.weights` are (..., heads, m, k), a column for each *projection* (`Attended.columns` says so);
`Attended.over_tokens` are p F, (..., heads, m, n): what multiplies the value of each token. These can be
negative, and do not sum to 1.

Wang et al. (2020), "Linformer: Self-Attention with Linear Complexity", arXiv:2006.04768, §4.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attended import Attended, versions_of
from regard.backends.call import Call
from regard.core.errors import SettingsError
from regard.core.shapes import widened
from regard.mechanisms.mechanism import Core, Heads, Mechanism, at_least_one, register
from regard.scores import ScaledDot


class LinformerCore(Core):
    """Attention to k mixtures of the tokens."""

    def __init__(self, each: int, heads: int, *, projected: int = 64, longest: int = 2048):
        super().__init__(each, heads)
        at_least_one(self.name, projected=projected, longest=longest)
        self.projected, self.longest = projected, longest
        self.E, self.F = (nn.Parameter(torch.randn(projected, longest) * projected**-0.5) for _ in range(2))

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        call, n = heads.call, heads.call.n
        if n > self.longest:
            raise SettingsError(
                f"linformer projects at most longest={self.longest} tokens; got {n}. Make it with more."
            )
        a, b = self.factors(call)
        values = widened(call.values)
        if shown is not None:  # a bias of the projections has made padding other than 0
            b, values = (torch.where(shown.mT, t, 0) for t in (b, values))
        E, F = (W[:, :n].to(b.dtype) for W in (self.E, self.F))
        return replace(
            call,
            query=a,
            keys=E @ b,
            values=F @ values,
            score=ScaledDot(1.0),
            mask=None,
            sees=None,
            place=None,
        )

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        return None

    def attended(self, context: Tensor, call: Call, kept: Tensor | None) -> Attended:
        return Attended(
            context, call, kept, versions_of(call), columns="projections", _tokens=self.F[:, : self._n]
        )

    def forward(self, heads: Heads) -> Attended:
        """Attend; the context of a sequence with nothing to see is 0."""
        self._n = heads.call.n
        if heads.call.sees is not None:
            then, sees = heads.then, heads.call.sees
            heads = replace(heads, then=lambda z: then(torch.where(sees.unsqueeze(-1), z, 0)))
        return super().forward(heads)

    def extra_repr(self) -> str:
        return f"projected={self.projected}, longest={self.longest}"


@register(across=True, maps=True, why_not_causal="its projection mixes tokens to come into every key")
class Linformer(Mechanism):
    """Multi-head attention to k projections of the keys."""

    core_kind = LinformerCore
