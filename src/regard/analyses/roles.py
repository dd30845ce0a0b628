"""Which head does what: every head of an encoder against every role, each score beside its yardstick.

A head may have several roles and most have none. With many heads and many relations some will be above a
yardstick by luck: look at `count`, and at other sentences, before giving a head a name.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.analyses.positional import Positional
from regard.analyses.rare_words import COMMON, RareWords
from regard.analyses.reading import weights_of
from regard.analyses.role import Role
from regard.analyses.subwords import Subwords
from regard.analyses.syntactic import Syntactic
from regard.analyses.tokenized import TokenizedText

Listener = Callable[[int], None]  # is told how many texts were seen


@dataclass(frozen=True)
class Score:
    """What one head scored in one respect of a role."""

    what: str
    score: float
    yardstick: float
    count: int
    plays: bool  # whether that makes it a head of this role


@dataclass(frozen=True)
class Head:
    """What one head was found to do; by role its scores, the farthest above its yardstick first."""

    layer: int  # from 0
    head: int
    scores: dict[str, list[Score]]

    @property
    def roles(self) -> list[str]:
        """The roles it has: all that it plays in any respect."""
        return [role for role, scores in self.scores.items() if any(score.plays for score in scores)]

    def best(self, role: str) -> Score | None:
        """The respect in which it is farthest above its yardstick."""
        return next(iter(self.scores.get(role, [])), None)


def head_roles(
    system: Any,
    texts: Sequence[TokenizedText],
    counts: Mapping[int, int] | None = None,
    listen: Listener | None = None,
) -> list[Head]:
    """Every head of a run's encoder on these texts, of which at least one must have a token.

    counts is how often each token occurs, in the data the run was trained on if there are any; else in the
    texts themselves. Syntax is told of if all texts have trees.
    """
    if not any(text.tokens for text in texts):
        raise ValueError("there is no text to read: heads show what they do on sentences.")
    counts = counts or Counter(token for text in texts for token in text.tokens)
    trees = all(text.sentence is not None for text in texts)
    watched = ((weights, texts[k]) for k, weights in weights_of(system, texts))
    return count_roles(watched, roles_for(counts, trees=trees), listen)


def roles_for(counts: Mapping[int, int], *, trees: bool) -> dict[str, Role]:
    """The roles by name; of a small vocabulary no more than a quarter is too common to be rare."""
    found: dict[str, Role] = {
        "positional": Positional(),
        "rare words": RareWords(counts, min(COMMON, len(counts) // 4)),
        "subwords": Subwords(),
    }
    return {**found, "syntactic": Syntactic()} if trees else found


def count_roles(
    watched: Iterable[tuple[Tensor, TokenizedText]], roles: Mapping[str, Role], listen: Listener | None = None
) -> list[Head]:
    """Every head of some weights (layers, heads, n, n), each with its text, in these roles."""
    shape = (0, 0)
    for number, (weights, text) in enumerate(watched, 1):
        shape = weights.shape[0], weights.shape[1]
        for role in roles.values():
            role.see(weights, text)
        if listen is not None:
            listen(number)
    found: dict[tuple[int, int], dict[str, list[Score]]] = {
        (layer, head): {} for layer in range(shape[0]) for head in range(shape[1])
    }
    for name, role in roles.items():
        findings = [(finding, role.plays(finding)) for finding in role.found()]
        for at, scores in found.items():
            own = [
                Score(one.what, float(one.scores[at]), one.yardstick, one.count, bool(plays[at]))
                for one, plays in findings
            ]
            if own:
                scores[name] = sorted(own, key=lambda score: score.yardstick - score.score)
    return [Head(layer, head, scores) for (layer, head), scores in found.items()]
