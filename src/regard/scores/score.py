"""The base class of scores, θ = score(q, K), terms that are added to a score, and SCORES: all by name.

A score is called with query and keys and returns θ: no mask, no map, no state between calls. A term is called
with query, keys and their `Place`, and returns a tensor that broadcasts to θ. Any callable can be either;
subclasses of `Score` also support `+`, and tell the backends what they may do with them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.core.registry import Table, first_line
from regard.core.shapes import check, widened

Term = Callable[[Tensor, Tensor, Place], Tensor]  # (..., m, d_q), (..., n, d_k) → broadcasts to (..., m, n)


@dataclass(frozen=True, eq=False)
class ByDistance:
    """A bias that depends on how far key j is from query i, so that nothing of size m × n is needed.

    θᵢⱼ += table[..., i or 0, clip(j − i − first, 0, L − 1)]
    """

    table: Tensor  # (..., m or 1, L): one row for all queries, or one of its own for each
    first: int  # the j − i, of numbers in this call, that the first column is for

    def rows(self, start: int, stop: int) -> "ByDistance":
        """That of queries start to stop (not included) alone."""
        own = self.table if self.table.shape[-2] == 1 else self.table[..., start:stop, :]
        return ByDistance(own, self.first + start)

    def written(self, m: int, n: int) -> Tensor:
        """The bias of m queries and n keys, (..., m, n)."""
        i, j = (torch.arange(size, device=self.table.device) for size in (m, n))
        index = (j - i.unsqueeze(-1) - self.first).clamp(0, self.table.shape[-1] - 1)  # (m, n)
        if self.table.shape[-2] == 1:
            return self.table.squeeze(-2)[..., index]
        return self.table.gather(-1, index.expand(*self.table.shape[:-1], n))


@dataclass(frozen=True, eq=False)
class Products:
    """Scores as fast backends compute them, without m × n memory:

    θ = cap · tanh((q Kᵀ + bias + distance) / cap)        without a cap: θ = q Kᵀ + bias + distance
    """

    query: Tensor  # (..., m, d)
    keys: Tensor  # (..., n, d); axes of size 1 are shared and must not be copied
    bias: Tensor | None = None  # broadcasts to (..., m, n): given as a tensor, maybe learned
    distance: ByDistance | None = None
    cap: float | None = None

    @property
    def bare(self) -> bool:
        """Whether θ is the dot products and nothing else."""
        return self.bias is None and self.distance is None and self.cap is None

    def rows(self, start: int, stop: int) -> "Products":
        """Those of queries start to stop (not included) alone."""
        bias = self.bias
        if bias is not None and bias.dim() > 1 and bias.shape[-2] > 1:
            bias = bias[..., start:stop, :]
        distance = None if self.distance is None else self.distance.rows(start, stop)
        return replace(self, query=self.query[..., start:stop, :], bias=bias, distance=distance)

    def times(self, factor: float | Tensor) -> "Products | None":
        """The same scores times a number above 0, or one for each head (heads, 1, 1), which no cap allows."""
        if self.cap is not None and isinstance(factor, Tensor):
            return None
        bias, distance = self.bias, self.distance
        return replace(
            self,
            query=self.query * factor,
            bias=None if bias is None else bias * factor,
            distance=None if distance is None else ByDistance(distance.table * factor, distance.first),
            cap=None if self.cap is None or isinstance(factor, Tensor) else self.cap * factor,
        )

    def written(self) -> Tensor:
        """θ (..., m, n), in plain torch."""
        theta = matmul(self.query, self.keys.mT)
        theta = theta if self.bias is None else theta + self.bias
        if self.distance is not None:
            theta = theta + self.distance.written(*theta.shape[-2:])
        return theta if self.cap is None else self.cap * (theta / self.cap).tanh()


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """left (..., m, k) @ right (..., k, n); a right of 1 on the axis before m is not copied for it."""
    if left.dim() < 4 or right.dim() < 3 or right.shape[-3] != 1 or left.shape[-3] == 1:
        return left @ right
    rows = left.shape[-3:-1]
    product: Tensor = (left.flatten(-3, -2) @ right.squeeze(-3)).unflatten(-2, rows)
    return product


class Score(nn.Module):
    """A score of query (..., m, d_q) against keys (..., n, d_k): θ (..., m, n)."""

    uses_place: bool = False  # forward takes a Place as its third argument
    looks_around: bool = False  # the score of a key depends on other keys, so it needs the mask
    per_pair: int = 1  # numbers in memory per pair of query and key; backends choose block sizes by it
    broadcasts: bool = (
        False  # keys of one head may serve several: (..., kv, g, m, d_q) and (..., kv, 1, n, d_k)
    )

    @classmethod
    def of(cls, d_q: int, d_k: int) -> Self:
        """This score for these widths, with default settings."""
        return cls(d_q, d_k)

    def __call__(self, query: Tensor, keys: Tensor, *place: Place) -> Tensor:
        """Half-precision inputs are scored in float32; θ has the dtype of the query."""
        theta: Tensor = super().__call__(widened(query), widened(keys), *place)
        return theta.to(query.dtype)

    def __add__(self, term: Term) -> "Sum":
        return Sum(self, term)

    def products(self, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        """The score in the form fast backends take, of inputs in float32 or float64; None if it has none."""
        return None

    def encoded(self, keys: Tensor, positions: Tensor | range) -> Tensor | None:
        """Keys (..., k, d_k) as a cache may hold them, with all that is done to them at these positions.

        Given back with a place that says `encoded`. None: there is nothing to do once and for all.
        """
        return None


class Factored(Score):
    """A score that is a dot product of transformed query and transformed keys.

    A subclass defines `factors(query, keys)`: (..., m, d) and (..., n, d) whose dot products are θ; fast
    backends compute these. Where factors depend on positions, set `uses_place` and define
    `factors(query, keys, place)`: a backend may ask for any block of queries.
    """

    factors: Callable[..., tuple[Tensor, Tensor]]

    def forward(self, query: Tensor, keys: Tensor, *place: Place) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        if self.uses_place and not place:
            place = (Place.default(query.shape[-2], keys.shape[-2], query.device),)
        a, b = self.factors(query, keys, *place)
        return matmul(a, b.mT)

    def products(self, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        return Products(*self.factors(query, keys, *((place,) if self.uses_place else ())))


S = TypeVar("S", bound=type[Score])


@dataclass(frozen=True)
class ScoreEntry:
    """The registry entry of a score; `make(d_q, d_k)` builds one."""

    name: str
    kind: type[Score]
    says: str  # one sentence
    learned: bool  # has parameters by default, so it must be built before use
    any_widths: bool  # d_q and d_k may differ

    @property
    def factored(self) -> bool:
        """Whether it is a dot product of two factors, which fast backends need."""
        return issubclass(self.kind, Factored)

    @property
    def looks_around(self) -> bool:
        """Whether the score of a key depends on other keys."""
        return self.kind.looks_around

    def make(self, d_q: int, d_k: int) -> Score:
        """The score for these widths, with default settings."""
        return self.kind.of(d_q, d_k)


SCORES: Table[ScoreEntry] = Table("score", {})


def register(*, learned: bool = False, any_widths: bool = False) -> Callable[[S], S]:
    """Enter a score class into SCORES under the name of its file, with its properties."""

    def enter(kind: S) -> S:
        name = kind.__module__.rsplit(".", 1)[-1]
        SCORES.enter(name, ScoreEntry(name, kind, first_line(kind), learned, any_widths))
        return kind

    return enter


class Sum(Score):
    """A score and terms added to it: θ = score(q, K) + Σ term(q, K, place)."""

    uses_place = True

    def __init__(self, score: Callable[..., Tensor], *terms: Term):
        super().__init__()
        for term in terms:
            if isinstance(term, Score):
                name = type(term).__name__
                raise TypeError(
                    f"{name} is a score, not a term that is added to one: write score={name}(...) + terms."
                )
        self.score, self.terms = score, list(terms)
        self.modules_among_terms = nn.ModuleList(t for t in terms if isinstance(t, nn.Module))
        self.looks_around = getattr(score, "looks_around", False)
        self.per_pair = getattr(score, "per_pair", 1) + 1

    def __add__(self, term: Term) -> "Sum":
        return Sum(self.score, *self.terms, term)

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k) at their positions: (..., m, n)."""
        self._check_heads(query, keys)
        theta = score_at(self.score, query, keys, place)
        for term in self.terms:
            theta = theta + term(query, keys, place)
        return theta

    def _check_heads(self, query: Tensor, keys: Tensor) -> None:
        """Require the axis of heads that a term has numbers for."""
        for term in self.terms:
            heads = getattr(term, "heads", 1)
            if heads != 1 and heads not in (query.shape[-3:-2] + keys.shape[-3:-2]):
                raise ShapeError(
                    f"{type(term).__name__} has {heads} heads, so query must be (..., {heads}, m, d_q) "
                    f"and keys (..., {heads}, n, d_k); got {tuple(query.shape)} and {tuple(keys.shape)}. "
                    "With heads=1 it works for any shape."
                )

    def products(self, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        self._check_heads(query, keys)
        found = self.score.products(query, keys, place) if isinstance(self.score, Score) else None
        for term in self.terms:
            if found is None or found.cap is not None or not isinstance(term, FastTerm):
                return None
            found = term.added(found, query, keys, place)
        return found

    def encoded(self, keys: Tensor, positions: Tensor | range) -> Tensor | None:
        return self.score.encoded(keys, positions) if isinstance(self.score, Score) else None


def score_at(
    score: Callable[..., Tensor], query: Tensor, keys: Tensor, place: Place | None, states: bool = False
) -> Tensor:
    """θ (..., m, n) of any score; with `states` there is one more axis: θ (..., m, n, s).

    A `Score` gets half-precision inputs as float32, another callable gets them as they are.
    """
    if not isinstance(score, Score):
        theta = score(query, keys)
        want = (query.shape[-2], keys.shape[-2])
        found = tuple(theta.shape[-3:-1] if states else theta.shape[-2:])
        if found != want:
            raise ShapeError(
                f"score must return (..., m, n{', states' if states else ''}) with m={want[0]}, n={want[1]}; "
                f"got {tuple(theta.shape)}."
            )
        return widened(theta)
    query, keys = widened(query), widened(keys)
    return score(query, keys, place) if score.uses_place and place is not None else score(query, keys)


@runtime_checkable
class FastTerm(Protocol):
    """A term that fast backends can add to dot products."""

    def added(self, products: Products, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        """The products with this term added; None if it cannot be, here."""
        ...


class FeatureTerm(Protocol):
    """A term given by features, which a score with a nonlinearity can apply inside it."""

    width: int  # number of features f

    def features(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m, n, f), or a shape that broadcasts to it."""
        ...


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """Apply a layer in the dtype of its input, to which its parameters are cast."""
    return F.linear(x, layer.weight.to(x.dtype), None if layer.bias is None else layer.bias.to(x.dtype))


def layers(modules: nn.ModuleList) -> Iterable[nn.Linear]:
    """Linear layers by their type, which a ModuleList does not know."""
    return cast(Iterable[nn.Linear], modules)


class Inside(nn.Module):
    """Terms inside a nonlinearity: Σ_t W_t features_t, one matrix per term (Cohn et al. 2016)."""

    def __init__(self, terms: "list[Any]", d: int):
        super().__init__()
        self.terms = terms
        for term in terms:
            if not hasattr(term, "features") or not hasattr(term, "width"):
                raise TypeError(
                    f"{term} has no features, so it cannot go inside the nonlinearity; use score + term."
                )
            if hasattr(term, "taken"):
                term.taken()
        self.modules_among_terms = nn.ModuleList(t for t in terms if isinstance(t, nn.Module))
        self.W = nn.ModuleList(nn.Linear(term.width, d, bias=False) for term in terms)

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m, n, d), or a shape that broadcasts to it."""
        parts = [
            linear(term.features(query, keys, place).to(query.dtype), W)
            for term, W in zip(self.terms, layers(self.W), strict=True)
        ]
        return sum(parts[1:], parts[0])


def check_widths(query: Tensor, keys: Tensor, d_q: int, d_k: int) -> None:
    """Require query (..., m, d_q) and keys (..., n, d_k)."""
    check("query", query, "... m d_q", d_q=d_q)
    check("keys", keys, "... n d_k", d_k=d_k)


def check_same_width(name: str, query: Tensor, keys: Tensor) -> None:
    """Require d_q = d_k, for scores that compare coordinates."""
    if query.shape[-1] != keys.shape[-1]:
        raise ShapeError(
            f"{name} compares coordinates, so d_q must equal d_k; "
            f"got d_q={query.shape[-1]}, d_k={keys.shape[-1]}. "
            "For different widths use bilinear or additive."
        )


def pairs(query: Tensor, keys: Tensor) -> Tensor:
    """Sums of every query and every key: (..., m, d) and (..., n, d) to (..., m, n, d)."""
    return query.unsqueeze(-2) + keys.unsqueeze(-3)
