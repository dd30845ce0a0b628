"""Where tokens stand, as language models are told it: vectors added to embeddings, or terms of the score.

sinusoidal, learned   a vector for each position, added to the embedding
rotary, alibi         in the score of queries and keys: `positions/rotary.py`, `positions/alibi.py`
nape                  half of the heads have ALiBi with slopes 1, 1/2, 1/3 …, half have no positions at all
none                  nothing: a causal mask alone tells a little

NAPE: Vasylenko et al. (2025), "Long-Context Generalization with Sparse Attention", arXiv:2506.16640.
"""

from typing import Literal

from regard.models.parts.named_components import check_choice, with_terms
from regard.positions import ALiBi, Learned, Rotary, Sinusoidal
from regard.scores import Score
from regard.scores.score import Factored

Placing = Literal["rotary", "alibi", "nape", "learned", "sinusoidal", "none"]
KINDS = ("rotary", "alibi", "nape", "learned", "sinusoidal", "none")


def placed_score(score: str, each: int, heads: int, placing: str) -> Score:
    """A score of queries and keys of width `each`, with positions in it if they belong there."""
    check_choice("positions", placing, KINDS)
    found = with_terms(score, each, each, [])
    if placing == "rotary":
        if not isinstance(found, Factored):
            raise ValueError(
                f"rotary positions turn the factors of a dot product, and {score} is none. Use scaled_dot, "
                "or positions alibi, learned or sinusoidal."
            )
        return Rotary(each, score=found)
    if placing == "nape":
        bare = heads // 2
        return found + ALiBi(heads, [0.0] * bare + [1 / h for h in range(1, heads - bare + 1)])
    return found + ALiBi(heads) if placing == "alibi" else found


def added_positions(placing: str, width: int, longest: int) -> Sinusoidal | Learned | None:
    """The vectors that are added to embeddings, if any are."""
    if placing == "learned":
        return Learned(width, longest)
    return Sinusoidal(width) if placing == "sinusoidal" else None
