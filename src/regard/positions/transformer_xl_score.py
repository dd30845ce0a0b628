"""Transformer-XL's score: content and distance, each with a bias in place of the query's position.

    θᵢⱼ = ((qᵢ + u)ᵀ kⱼ + (qᵢ + v)ᵀ W r_{i−j}) / √d          r_t = [sin ω₁t, cos ω₁t, sin ω₂t, cos ω₂t, …]

i and j are positions, counted over memory and new tokens together. r_{i−j} is r_{−j} with each pair
(sin, cos) rotated by the angle ω i:

    sin ω(i − j) = cos ωi · sin(−ωj) + sin ωi · cos(−ωj)
    cos ω(i − j) = cos ωi · cos(−ωj) − sin ωi · sin(−ωj)

so r_{i−j} = M_i r_{−j} with M_i orthogonal, and (qᵢ + v)ᵀ W r_{i−j} = (M_iᵀ Wᵀ(qᵢ + v))ᵀ r_{−j}. The whole
score is one dot product of [qᵢ + u; M_iᵀ Wᵀ(qᵢ + v)] with [kⱼ; r_{−j}]: no m × n positions, no shifted
matrices, and every fast backend takes it.

Dai et al. (2019), "Transformer-XL", arXiv:1901.02860, §3.3 (there r has the width of the model:
encoding=width).
"""

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.core.shapes import check
from regard.positions.sinusoidal import sinusoid
from regard.scores.score import Factored


class TransformerXL(Factored):
    """Transformer-XL's score for heads of width d, with u, v (heads, d) and W (heads, d, encoding).

    `encoding` is the width of r, even; d unless given. heads=1 shares u, v and W among all heads.
    """

    uses_place = True

    def __init__(self, d: int, heads: int = 1, *, encoding: int | None = None):
        super().__init__()
        encoding = d + d % 2 if encoding is None else encoding
        if encoding < 2 or encoding % 2:
            raise ValueError(f"encoding must be even, as sines and cosines are pairs; got {encoding}.")
        self.d, self.heads, self.encoding = d, heads, encoding
        self.u = nn.Parameter(torch.zeros(heads, d))
        self.v = nn.Parameter(torch.zeros(heads, d))
        self.W = nn.Parameter(torch.randn(heads, d, encoding) * encoding**-0.5)

    def factors(self, query: Tensor, keys: Tensor, place: Place) -> tuple[Tensor, Tensor]:
        """(..., m, d + encoding) and (..., n, d + encoding)."""
        check("query", query, "... m d", d=self.d)
        check("keys", keys, "... n d", d=self.d)
        u, v, W = (p.to(query.dtype) for p in (self.u, self.v, self.W))
        u, v = u.unsqueeze(-2), v.unsqueeze(-2)  # (heads, 1, d)
        if self.heads == 1:
            u, v, W = u[0], v[0], W[0]
        i, j = place.queries, place.keys
        if place.shift is not None:  # only distances count: small numbers are rounded less
            i = torch.arange(query.shape[-2], device=query.device)
            j = torch.arange(keys.shape[-2], device=keys.device) - place.shift
        turn = sinusoid(i, self.encoding).to(query.dtype)  # (..., m, encoding): sin ωi, cos ωi
        sin, cos = turn[..., 0::2], turn[..., 1::2]
        s, c = ((query + v) @ W).unflatten(-1, (-1, 2)).unbind(-1)  # (..., m, encoding / 2), each
        turned = torch.stack([s * cos - c * sin, s * sin + c * cos], -1).flatten(-2)
        content = torch.cat([query + u, turned], -1) * self.d**-0.5
        back = sinusoid(-j, self.encoding).to(keys.dtype)  # (..., n, encoding)
        back = back.expand(*keys.shape[:-1], self.encoding)
        return content, torch.cat([keys, back], -1)

    def extra_repr(self) -> str:
        return f"{self.d}, heads={self.heads}, encoding={self.encoding}"
