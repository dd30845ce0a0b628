"""Roles of heads: every head of an encoder scored for every role, with a baseline for each score.

A head may have several roles; most have none. With many heads and many relations some exceed their baseline
by chance: check `count`, and other sentences, before drawing conclusions.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.analyses.positional import Positional
from regard.analyses.rare_words import COMMON, RareWords
from regard.analyses.read_weights import weights_of
from regard.analyses.role import Role
from regard.analyses.subwords import Subwords
from regard.analyses.syntactic import Syntactic
from regard.analyses.tokenized import TokenizedText

Listener = Callable[[int], None]  # called with the number of texts so far


@dataclass(frozen=True)
class HeadScore:
    """The score of one head for one behaviour of a role."""

    what: str
    score: float
    baseline: float
    count: int
    plays: bool  # whether the head has the role


@dataclass(frozen=True)
class HeadRoles:
    """The scores of one head by role, the farthest above its baseline first."""

    layer: int  # from 0
    head: int
    scores: dict[str, list[HeadScore]]

    @property
    def roles(self) -> list[str]:
        """The roles that the head has."""
        return [role for role, scores in self.scores.items() if any(score.plays for score in scores)]

    def best(self, role: str) -> HeadScore | None:
        """The score that is farthest above its baseline."""
        return next(iter(self.scores.get(role, [])), None)


def head_roles(
    system: Any,
    texts: Sequence[TokenizedText],
    counts: Mapping[int, int] | None = None,
    listen: Listener | None = None,
) -> list[HeadRoles]:
    """Every head of a run's encoder on these texts, of which at least one must have a token.

    counts are token frequencies, of the training data if there are any, else of the texts themselves. The
    syntactic role is included if all texts have trees.
    """
    if not any(text.tokens for text in texts):
        raise ValueError("there is no text to read: heads show what they do on sentences.")
    counts = counts or Counter(token for text in texts for token in text.tokens)
    trees = all(text.sentence is not None for text in texts)
    watched = ((weights, texts[k]) for k, weights in weights_of(system, texts))
    return count_roles(watched, roles_for(counts, trees=trees), listen)


def roles_for(counts: Mapping[int, int], *, trees: bool) -> dict[str, Role]:
    """The roles by name; at most a quarter of the vocabulary counts as common."""
    found: dict[str, Role] = {
        "positional": Positional(),
        "rare words": RareWords(counts, min(COMMON, len(counts) // 4)),
        "subwords": Subwords(),
    }
    return {**found, "syntactic": Syntactic()} if trees else found


def count_roles(
    watched: Iterable[tuple[Tensor, TokenizedText]], roles: Mapping[str, Role], listen: Listener | None = None
) -> list[HeadRoles]:
    """Score every head for these roles, given weights (layers, heads, n, n), each with its text."""
    shape = (0, 0)
    for number, (weights, text) in enumerate(watched, 1):
        shape = weights.shape[0], weights.shape[1]
        for role in roles.values():
            role.see(weights, text)
        if listen is not None:
            listen(number)
    found: dict[tuple[int, int], dict[str, list[HeadScore]]] = {
        (layer, head): {} for layer in range(shape[0]) for head in range(shape[1])
    }
    for name, role in roles.items():
        findings = [(finding, role.plays(finding)) for finding in role.found()]
        for at, scores in found.items():
            own = [
                HeadScore(one.what, float(one.scores[at]), one.baseline, one.count, bool(plays[at]))
                for one, plays in findings
            ]
            if own:
                scores[name] = sorted(own, key=lambda score: score.baseline - score.score)
    return [HeadRoles(layer, head, scores) for (layer, head), scores in found.items()]
