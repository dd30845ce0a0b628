"""A score by its name in SCORES, or as it is."""

from collections.abc import Callable
from functools import lru_cache

from torch import Tensor

from regard.core.names import refuse_class
from regard.scores import SCORES, ScaledDot

Score = Callable[..., Tensor]
_MADE: dict[str, Score] = {}  # scores without parameters: one serves every call


def resolve_score(
    score: str | Score, d_q: int | None = None, d_k: int | None = None, *, scale: float | None = None
) -> Score:
    """A score by name or as it is; one with parameters needs the widths; a scale is for the scaled dot."""
    if scale is not None:
        if score != "scaled_dot":
            raise ValueError(
                'scale is the factor of score="scaled_dot"; for another score use '
                "regard.scores.Temperature(score, 1 / scale)."
            )
        return _scaled(scale)
    if isinstance(score, str):
        entry = SCORES[score]
        if d_q is not None and d_k is not None:
            return entry.make(d_q, d_k)
        if entry.learned:
            kind = entry.kind.__name__
            raise ValueError(
                f'score "{score}" has parameters, so it must be built: score=regard.scores.{kind}(d_q, d_k).'
            )
        if score not in _MADE:
            _MADE[score] = entry.make(0, 0)
        return _MADE[score]
    refuse_class("score", score)
    if not callable(score):
        raise TypeError(f"score must be a name from regard.SCORES or a callable; got {type(score).__name__}.")
    return score


@lru_cache(64)
def _scaled(scale: float) -> Score:
    return ScaledDot(scale)
