"""Nested brackets of several kinds: a text in which every closing bracket has its opening one to look for.

    ( a [ b c ] d { } e )

Between brackets stand letters that say nothing about them. Which bracket closes next is certain, and how far
back it was opened can be any number of tokens: a model must remember, or look.

After the Dyck languages of Chomsky & Schützenberger (1963), "The Algebraic Theory of Context-Free Languages".
"""

from collections.abc import Iterator
from random import Random

from regard.data.corpora.grammar import Sentence
from regard.data.corpora.split import Split, stream

KINDS = ["()", "[]", "{}", "<>"]
LETTERS = "abcdefgh"


def brackets(seed: int = 0, split: Split = "train", deepest: int = 4, most: int = 24) -> Iterator[str]:
    """Lines of single characters separated by spaces, with at most `most` characters before all is closed."""

    def draw(chance: Random) -> Sentence:
        said: list[str] = []
        opened: list[str] = []
        while len(said) < most:
            place = chance.random()
            if place < 0.25 and len(opened) < deepest:
                kind = KINDS[int(chance.random() * len(KINDS))]
                opened.append(kind[1])
                said.append(kind[0])
            elif place < 0.45 and opened:
                said.append(opened.pop())
            else:
                said.append(LETTERS[int(chance.random() * len(LETTERS))])
        return Sentence(" ".join([*said, *reversed(opened)]) + "\n")

    return (line.text for line in stream(draw, split, seed, "text"))
