"""Synthesizer: weights that are not made by comparing a query with keys.

    dense        θᵢⱼ = wⱼ · relu(qᵢ) + bⱼ        w, b learned for each position j up to `longest`
    random       θᵢⱼ = Rᵢⱼ                       learned: longest × longest
    factorised   θᵢⱼ = aᵢ · bⱼ                   learned: longest × rank each

z = map(θ) V. The keys are not looked at: no change of a key changes a weight, and `regard audit` says so.
Dense and factorised scores are dot products with learned vectors, so that no backend writes them out; their
cost is n² d all the same. Any mask and any map.

`Attended.weights` are map(θ), (..., heads, m, n).

Tay et al. (2021), "Synthesizer: Rethinking Self-Attention for Transformer Models", arXiv:2005.00743, §3.
Departs from the paper: the first layer of the dense one is the projection of the query; one set of vectors
serves all heads of a dense one.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import SettingsError
from regard.core.place import Place
from regard.mechanisms.mechanism import Core, Mechanism, at_least_one, register
from regard.scores.score import Factored, Products, Score

KINDS = ("dense", "random", "factorised")


class Dense(Factored):
    """θᵢⱼ = wⱼ · relu(qᵢ) + bⱼ, j the position of the key."""

    uses_place = True

    def __init__(self, each: int, longest: int):
        super().__init__()
        self.longest = longest
        self.w = nn.Parameter(torch.randn(longest, each + 1) * each**-0.5)

    def factors(self, query: Tensor, keys: Tensor, place: Place) -> tuple[Tensor, Tensor]:
        """relu(q) and 1 beside it; w and b of each position."""
        a = query.relu()
        a = torch.cat([a, torch.ones_like(a[..., :1])], -1)
        return a, self.w.to(a.dtype)[_at(place.keys, self.longest)] + 0 * keys[..., :1]


class FactorisedRandom(Factored):
    """θᵢⱼ = aᵢ · bⱼ of the two positions, for each head."""

    uses_place = True

    def __init__(self, heads: int, longest: int, rank: int):
        super().__init__()
        self.longest = longest
        self.a, self.b = (nn.Parameter(torch.randn(heads, longest, rank) * rank**-0.25) for _ in range(2))

    def factors(self, query: Tensor, keys: Tensor, place: Place) -> tuple[Tensor, Tensor]:
        """The vectors of the positions."""
        a, b = (
            W.to(query.dtype)[:, _at(at, self.longest)]
            for W, at in ((self.a, place.queries), (self.b, place.keys))
        )
        return a + 0 * query[..., :1], b + 0 * keys[..., :1]


class Random(Score):
    """θᵢⱼ = Rᵢⱼ of the two positions, for each head."""

    uses_place = True

    def __init__(self, heads: int, longest: int):
        super().__init__()
        self.longest = longest
        self.R = nn.Parameter(torch.randn(heads, longest, longest))

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., heads, m, n)."""
        i, j = _at(place.queries, self.longest), _at(place.keys, self.longest)
        chosen: Tensor = self.R.to(query.dtype)[:, i][..., j]
        return chosen.expand(*query.shape[:-2], -1, -1)

    def products(self, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        return None


class SynthesizerCore(Core):
    """Attention with weights by position."""

    def __init__(self, each: int, heads: int, *, kind: str = "dense", longest: int = 2048, rank: int = 16):
        super().__init__(each, heads)
        at_least_one(self.name, longest=longest, rank=rank)
        if kind not in KINDS:
            raise ValueError(f"synthesizer: kind must be {', '.join(KINDS)}; got {kind!r}.")
        self.kind, self.longest, self.rank = kind, longest, rank

    def wrapped(self, score: Callable[..., Tensor]) -> Callable[..., Tensor]:
        if self.kind == "dense":
            return Dense(self.each, self.longest)
        if self.kind == "random":
            return Random(self.heads, self.longest)
        return FactorisedRandom(self.heads, self.longest, self.rank)

    def extra_repr(self) -> str:
        return f"kind={self.kind}, longest={self.longest}"


@register(masks="any", exact=False, slope=2.0, maps=True)
class Synthesizer(Mechanism):
    """Multi-head attention whose weights do not depend on the keys."""

    core_kind = SynthesizerCore


def _at(positions: Tensor, longest: int) -> Tensor:
    """Positions (k,) as an index, all below `longest`."""
    if torch.compiler.is_compiling():  # there the index itself raises
        return positions.long()
    if positions.shape[-1] and int(positions.max()) >= longest:
        raise SettingsError(
            f"synthesizer has weights for longest={longest} positions; got {int(positions.max()) + 1}."
        )
    return positions.long()
