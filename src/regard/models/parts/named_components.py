"""Scores and maps by name, as in a model's configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.maps import MAPS, ContinuousSoftmax, ContinuousSparsemax, Entmax, Hard
from regard.positions import Features
from regard.scores import MLP, SCORES, Additive, Score
from regard.scores.score import Sum, linear, pairs, score_at

CONTINUOUS = {"continuous_softmax": ContinuousSoftmax, "continuous_sparsemax": ContinuousSparsemax}


@dataclass(frozen=True)
class AttentionConfig:
    """What a configuration says of an attention."""

    score: str = "additive"
    map: str = "softmax"
    learn_alpha: bool = False


def make_map(
    name: str, *, learn_alpha: bool = False, heads: int = 1, grid: tuple[int, int] | None = None
) -> Callable[..., Tensor]:
    """A differentiable row map by name; with learn_alpha, entmax with one learned α per head.

    `grid` are the rows and columns of a plane of keys, over which continuous maps then have their densities.
    """
    entry = MAPS[name]
    if entry.acts_on != "row":
        raise ValueError(
            f'map "{name}" acts on the whole matrix of scores, but models map one row at a time. '
            f"Choose from {', '.join(map_names())}."
        )
    if not entry.differentiable:
        raise ValueError(
            f'map "{name}" has no gradient, so it cannot be trained. Choose from {", ".join(map_names())}.'
        )
    if learn_alpha:
        if name != "entmax":
            raise ValueError(f'learn_alpha is for map "entmax"; got map "{name}".')
        return Entmax(learn_alpha=True, heads=heads)
    if grid is not None and name in CONTINUOUS:
        return CONTINUOUS[name](shape=grid)
    return Hard() if name == "hard" else entry.function  # Hard samples in training mode only


def map_names() -> list[str]:
    """The names of the differentiable row maps."""
    return sorted(name for name, entry in MAPS.items() if entry.acts_on == "row" and entry.differentiable)


class PrecomputedKeys(Score):
    """A score whose transformation of the keys, `keys`, is computed once for all decoder steps."""

    uses_place = True

    def keys(self, annotations: Tensor) -> Tensor:
        """Annotations (..., n, d_k) to keys (..., n, d)."""
        raise NotImplementedError


class PrecomputedAdditive(PrecomputedKeys, Additive):
    """The additive score with W₁ already applied to the keys."""

    def keys(self, annotations: Tensor) -> Tensor:
        return linear(annotations, self.W1)

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d): (..., m, n)."""
        hidden = pairs(linear(query, self.W2), keys)
        if self.inside is not None and place is not None:
            hidden = hidden + self.inside(query, keys, place)
        return linear(torch.tanh(hidden), self.v).squeeze(-1)


class PrecomputedProjection(PrecomputedKeys):
    """A score that needs equal widths, with keys projected to the query's width: θⱼ = score(q, Wkⱼ)."""

    def __init__(self, score: Score, d_q: int, d_k: int):
        super().__init__()
        self.score, self.W = score, nn.Linear(d_k, d_q, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        return linear(annotations, self.W)

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_q): (..., m, n)."""
        return score_at(self.score, query, keys, place)


def make_score(name: str, d_q: int, d_k: int, terms: Sequence[Features] = ()) -> Score:
    """A score by name for a decoder that attends to the same annotations (..., n, d_k) at every step."""
    if name == "additive":
        return PrecomputedAdditive(d_q, d_k, terms=terms)
    if d_q == d_k or SCORES[name].any_widths:
        return with_terms(name, d_q, d_k, terms)
    return PrecomputedProjection(with_terms(name, d_q, d_q, terms), d_q, d_k)


def with_terms(name: str, d_q: int, d_k: int, terms: Sequence[Features]) -> Score:
    """A score by name with terms: inside its nonlinearity if it has one, otherwise added."""
    kind = SCORES[name].kind
    if terms and issubclass(kind, Additive | MLP):
        return kind(d_q, d_k, terms=terms)
    score = SCORES[name].make(d_q, d_k)
    return Sum(score, *terms) if terms else score


def precompute_keys(score: Callable[..., Tensor], annotations: Tensor) -> Tensor:
    """The keys of this score from annotations (..., n, d_k)."""
    return score.keys(annotations) if isinstance(score, PrecomputedKeys) else annotations


def check_choice(name: str, value: str, known: tuple[str, ...]) -> str:
    """Require one of the known values."""
    if value not in known:
        raise ValueError(f"{name} must be {' or '.join(map(repr, known))}; got {value!r}.")
    return value
