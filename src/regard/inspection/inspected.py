"""The answer of a system to a text, the weights behind it, and both again when words are masked or deleted.

mask      the words get no attention weight, the rest is renormalised; hidden states may still carry them
delete    the words are removed from the text: leave-one-out
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from regard.core.errors import RunError
from regard.data.segments import Segments, by_word
from regard.tasks.system import System

How = Literal["none", "mask", "delete"]
FIRST = "(first)"  # a position before the words, as BERT's [CLS]
CHARACTERS = 32  # of a text for each token it may have: longer texts are refused before any work


class InvalidRequest(ValueError):
    """A request that has no answer."""


class OutOfRange(InvalidRequest):
    """A number that is too large: of a layer, head or word."""

    def __init__(self, name: str, got: int, count: int):
        known = f"{name} must be from 0 to {count - 1}; got {got}." if count else f"there are no {name}."
        super().__init__(known)
        self.name, self.got, self.count = name, got, count


@dataclass(frozen=True, eq=False)
class Inspected:
    """An answer and the weights behind it."""

    system: System
    name: str  # of the system, for captions and messages
    how: How
    words: list[str]  # of the whole text
    changed: list[int]  # numbers of the words that were masked or deleted
    columns: list[int]  # numbers of the words that were read: the columns of the weights
    read: Segments  # of the text that was read
    second: str | None
    answer: Any  # as `System.answer` gives it; None if there were no words to read
    rows: list[str]  # words of the answer: the rows of the weights
    weights: list[Tensor]  # of each layer (heads, m, n), between words; empty without attention or words

    @property
    def source(self) -> list[str]:
        """The words that were read."""
        return [self.words[column] for column in self.columns]

    @property
    def said(self) -> str:
        """The answer as text."""
        return "" if self.answer is None else str(self.answer.said)

    @property
    def log_prob(self) -> float | None:
        """Of the answer, where it has one."""
        return None if self.answer is None else self.answer.log_prob

    @property
    def probabilities(self) -> dict[str, float]:
        """Of every possible answer, where they are few."""
        return {} if self.answer is None else dict(self.answer.probabilities)

    @property
    def title(self) -> str:
        """The answer, with its probability where all answers have one."""
        probability = self.probabilities.get(self.said)
        return self.said if probability is None else f"{self.said}  {probability:.3f}"

    @property
    def masked(self) -> list[int]:
        """Positions of the tokens that were masked."""
        return self.read.tokens_of(self.changed) if self.how == "mask" else []

    def matrix(self, layer: int = -1, head: int | None = None) -> Tensor:
        """Weights (m, n) of a layer and one of its heads, from 0; without a head their mean."""
        return self.weights[layer].mean(0) if head is None else self.weights[layer][head]


def inspect(
    system: System,
    text: str,
    *,
    second: str | None = None,
    words: Collection[int] = (),
    how: How = "none",
    name: str = "the model",
    longest: int | None = None,
) -> Inspected:
    """Have a system answer a text with these words (numbers from 0) masked or deleted.

    A text of more than `longest` tokens is refused; `name` is what captions and messages call the system.
    """
    _check_characters("text", text, longest)
    whole = system.segments(text)
    for word in words:
        if not 0 <= word < len(whole.words):
            raise OutOfRange("words", word, len(whole.words))
    if how == "mask" and not system.masked_paths:
        raise InvalidRequest(f"{name} has no attention to the text: there is nothing to mask.")
    changed = set() if how == "none" else set(words)
    columns = [i for i in range(len(whole.words)) if how != "delete" or i not in changed]
    read = system.segments(*whole.remaining(changed)) if how == "delete" and changed else whole
    _check_count("text", len(read.tokens), "tokens", longest)
    _check_second(system, name, second, longest)
    found = Inspected(system, name, how, whole.words, sorted(changed), columns, read, second, None, [], [])
    if not columns:
        return found
    if not read.tokens:
        raise InvalidRequest(f"{name} finds no token in this: there is nothing to read.")
    try:
        return _answered(found)
    except ValueError as error:  # learned positions, for one, end somewhere
        raise InvalidRequest(f"{name} cannot read this: {error}") from error


def _answered(asked: Inspected) -> Inspected:
    system, read = asked.system, asked.read
    with system.masking(asked.masked):
        (answer,) = system.answer([system.input(read.text, asked.second)])
        said = system.answer_segments(answer)
        between = system.weights(answer) if said.words else []
        weights = [by_word(layer, read.word_of, said.word_of) for layer in between]
    return replace(asked, answer=answer, rows=said.words, weights=weights)


def self_attention(inspected: Inspected) -> tuple[list[Tensor], list[str]]:
    """Self-attention over the words that were read, (heads, n, n) of each layer, and the n words.

    Positions before the first token, as BERT's [CLS], come first.
    """
    try:
        with inspected.system.masking(inspected.masked):
            layers, ahead = inspected.system.self_weights(inspected.answer)
    except RunError as error:
        raise InvalidRequest(str(error)) from error
    word_of = [*range(ahead), *(ahead + word for word in inspected.read.word_of)]
    return [by_word(layer, word_of, word_of) for layer in layers], [FIRST] * ahead + inspected.source


def _check_characters(what: str, text: str, longest: int | None) -> None:
    """Refuse a text that is too long whatever its tokens are, before anything is done with it."""
    _check_count(what, len(text), "characters", None if longest is None else CHARACTERS * longest)


def _check_count(what: str, count: int, unit: str, most: int | None) -> None:
    if most is not None and count > most:
        raise InvalidRequest(f"the {what} has {count:,} {unit}; at most {most:,} are read here.")


def _check_second(system: System, name: str, second: str | None, longest: int | None) -> None:
    if not system.takes_second:
        if second is not None:
            raise InvalidRequest(f"{name} takes one text; a second came.")
        return
    if second is None or not second.strip():
        raise InvalidRequest(f"{name} takes two texts: the second must be given.")
    _check_characters("second text", second, longest)
    _check_count("second text", len(system.segments(second).tokens), "tokens", longest)
