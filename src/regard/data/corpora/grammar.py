"""Sentences of a small grammar with long-range agreement and brackets, for language models.

    the key to the cabinets ( which the old author near the doors sees ) opens .

The verb agrees with its subject, whatever nouns stand between them. Brackets "( which … )" hold a clause with
its own subject and verb and can be nested, so that after ")" the verb of the outer subject follows: what was
opened is closed, and what was begun is ended, at any distance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from regard.data.corpora.agreement import KINDS, NOUNS, PLACES
from regard.data.corpora.phrase import pick
from regard.data.corpora.split import Split, stream

VERBS = [("opens", "open"), ("sleeps", "sleep"), ("falls", "fall"), ("shines", "shine"), ("waits", "wait")]
TRANSITIVE = [("sees", "see"), ("finds", "find"), ("likes", "like"), ("moves", "move"), ("keeps", "keep")]


@dataclass(frozen=True)
class Sentence:
    """One sentence of the text."""

    text: str


def grammar(seed: int = 0, split: Split = "train", deepest: int = 2) -> Iterator[str]:
    """Sentences, each with its line end; clauses in brackets are nested at most `deepest` times."""

    def draw(chance: Random) -> Sentence:
        plural = chance.random() < 0.5
        words = [*_subject(chance, plural, deepest), pick(VERBS, chance)[plural], "."]
        return Sentence(" ".join(words) + "\n")

    return (sentence.text for sentence in stream(draw, split, seed, "text"))


def _subject(chance: Random, plural: bool, deepest: int) -> list[str]:
    words = _noun(chance, plural)
    if chance.random() < 0.4:
        words += [pick(PLACES, chance), *_noun(chance, chance.random() < 0.5)]
    if deepest and chance.random() < 0.4:
        inner = chance.random() < 0.5
        clause = [*_subject(chance, inner, deepest - 1), pick(TRANSITIVE, chance)[inner]]
        words += ["(", "which", *clause, ")"]
    return words


def _noun(chance: Random, plural: bool) -> list[str]:
    kind = [pick(KINDS, chance)] if chance.random() < 0.3 else []
    return ["the", *kind, pick(NOUNS, chance)[plural]]
