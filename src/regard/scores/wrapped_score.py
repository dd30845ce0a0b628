"""Scores made of another score."""

from collections.abc import Callable

from torch import Tensor

from regard.core.place import Place
from regard.scores.score import SCORES, Products, Score, score_at


class Wrapped(Score):
    """A score that does something to the θ of another one, given by name or as it is."""

    uses_place = True

    def __init__(self, score: str | Callable[..., Tensor]):
        super().__init__()
        if isinstance(score, str):
            entry = SCORES[score]
            if entry.learned:
                raise ValueError(
                    f'score "{score}" has parameters, so it must be built: {entry.kind.__name__}(d_q, d_k).'
                )
            score = entry.make(0, 0)
        self.score = score
        self.looks_around = getattr(score, "looks_around", False)
        self.per_pair = getattr(score, "per_pair", 1) + 1

    def theta(self, query: Tensor, keys: Tensor, place: Place | None) -> Tensor:
        """θ (..., m, n) of the score inside."""
        place = place or Place.default(query.shape[-2], keys.shape[-2], query.device)
        return score_at(self.score, query, keys, place)

    def inner_products(self, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        """Those of the score inside; None if it has none."""
        return self.score.products(query, keys, place) if isinstance(self.score, Score) else None

    def encoded(self, keys: Tensor, positions: Tensor | range) -> Tensor | None:
        return self.score.encoded(keys, positions) if isinstance(self.score, Score) else None
