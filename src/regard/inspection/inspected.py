"""The answer of a system to a text, the weights behind it, and both again when words are masked or deleted.

mask      the words get no attention weight, the rest is renormalised; hidden states may still carry them
delete    the words are removed from the text: leave-one-out; regions of a picture are painted grey
blur      regions of a picture are blurred
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from regard.core.errors import RunError
from regard.data.padding import batches_by_length
from regard.data.segments import Segments, by_word
from regard.tasks.system import System

How = Literal["none", "mask", "delete", "blur"]
TEXT, ANSWER = ("encoder", "text"), "decoder"  # names of self-attentions: over the text, over the answer
FIRST = "(first)"  # a position before the words, as BERT's [CLS]
CHARACTERS = 32  # of a text for each token it may have: longer texts are refused before any work
POSITIONS = 2048  # tokens that are read as one batch, padding included


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
    def continued(self) -> dict[str, str]:
        """The text with each of these answers behind it, where they are what comes next; else empty."""
        return dict(getattr(self.answer, "continued", {}))

    @property
    def title(self) -> str:
        """The answer; where all answers have a probability, said to be predicted, with its own."""
        probability = self.probabilities.get(self.said)
        if probability is None:
            return self.said
        return f"predicted: {self.said} (probability {probability:.3f})"

    @property
    def unknown(self) -> list[int]:
        """Numbers of the words that were read and hold a token that is not in the vocabulary."""
        tokens = zip(self.read.tokens, self.read.word_of, strict=True) if self.columns else ()
        return sorted({self.columns[word] for token, word in tokens if token == self.system.unknown})

    @property
    def masked(self) -> list[int]:
        """Positions of the tokens that were masked."""
        return self.read.tokens_of(self.changed) if self.how == "mask" else []

    def matrix(self, layer: int = -1, head: int | None = None) -> Tensor:
        """Weights (m, n) of a layer and one of its heads, from 0; without a head their mean."""
        return self.weights[layer].mean(0) if head is None else self.weights[layer][head]


def showing(inspected: Inspected, name: str | None) -> Inspected:
    """The same with another of `System.attentions` in the place of that from answer to text.

    Self-attention is shown between words alone, without special tokens; over the answer with its start.
    """
    if name not in (*TEXT, ANSWER) or inspected.answer is None:
        return inspected
    if name in TEXT:
        layers, source = self_attention(inspected)
        ahead = len(source) - len(inspected.source)
        weights = [layer[..., ahead:, ahead:] for layer in layers]
        return replace(inspected, weights=weights, rows=inspected.source)
    with inspected.system.masking(inspected.masked):
        layers = inspected.system.answer_weights(inspected.answer)
    word_of = inspected.system.answer_segments(inspected.answer).word_of
    weights = [by_word(layer, [0, *(1 + word for word in word_of)], word_of) for layer in layers]
    words = [FIRST, *inspected.rows]
    return replace(inspected, weights=weights, words=words, columns=list(range(len(words))), changed=[])


def without_sink(inspected: Inspected) -> Inspected:
    """The same without the weight on the first key, the rest of each row divided by its sum.

    In decoders the first key takes weight whatever it is: Xiao et al. (2024), arXiv:2309.17453, §3.1.
    """

    def rest(weights: Tensor) -> Tensor:  # (heads, m, n); where a special token stands first, it is not in n
        kept = weights.clone()
        if not inspected.system.ahead:
            kept[..., :1] = 0
        sums = kept.sum(-1, keepdim=True)
        return kept / sums.where(sums > 0, 1)

    return replace(inspected, weights=[rest(layer) for layer in inspected.weights])


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
    asked = prepare(system, text, second, words, how, name, longest)
    (found,) = answer_prepared([asked])
    if isinstance(found, InvalidRequest):
        raise found
    return found


def prepare(
    system: System,
    text: str,
    second: str | None,
    words: Collection[int],
    how: How,
    name: str,
    longest: int | None,
) -> Inspected:
    """What `inspect` takes, checked and cut into tokens and words: ready for `answer_prepared`."""
    for what, given in (("text", text), ("second text", second or "")):
        most = None if longest is None else system.most_characters or CHARACTERS * longest
        _check_count(what, len(given), "characters", most)
    whole = system.segments(text)
    for word in words:
        if not 0 <= word < len(whole.words):
            raise OutOfRange("words", word, len(whole.words))
    if how == "mask" and not system.masked_paths:
        raise InvalidRequest(f"{name} has no attention to the text: there is nothing to mask.")
    changed = set() if how == "none" else set(words)
    read, columns = whole, list(range(len(whole.words)))
    if how not in ("none", "mask", *system.deletions):
        raise InvalidRequest(f"{name} reads no picture: there is nothing to {how}.")
    if how in system.deletions and changed:
        read, columns = system.without(whole, changed, how)
    _check_count("text", len(read.tokens), "tokens", longest)
    _check_second(system, name, second, longest)
    if columns and not read.tokens:
        raise InvalidRequest(f"{name} finds no token in this: there is nothing to read.")
    return Inspected(system, name, how, whole.words, sorted(changed), columns, read, second, None, [], [])


def answer_prepared(prepared: Sequence[Inspected]) -> list[Inspected | InvalidRequest]:
    """The answers of one system to texts, those that nothing is masked in as one batch.

    Texts in a batch are padded, which changes the last bits of weights and probabilities, and no answer
    whose first and second choice differ by more.
    """
    found: list[Inspected | InvalidRequest] = list(prepared)  # where there are no words, nothing is answered
    alone = [i for i, one in enumerate(prepared) if one.columns and one.masked]
    lengths = [len(one.read.tokens) if one.columns and not one.masked else 0 for one in prepared]
    for some in (*batches_by_length(lengths, POSITIONS), *([i] for i in alone)):
        for i, one in zip(some, _answered([prepared[i] for i in some]), strict=True):
            found[i] = one
    return found


def _answered(asked: Sequence[Inspected]) -> Sequence[Inspected | InvalidRequest]:
    system, masked = asked[0].system, asked[0].masked
    try:
        with system.masking(masked):
            answers = system.answer([system.input(one.read.text, one.second) for one in asked])
            weights = system.batch_weights(answers)
        rows = [system.answer_segments(answer) for answer in answers]
    except ValueError as error:  # learned positions, for one, end somewhere
        if len(asked) > 1:  # of one of the texts
            return [found for one in asked for found in _answered([one])]
        return [InvalidRequest(f"{asked[0].name} cannot read this: {error}")]
    return [
        replace(
            one,
            answer=answer,
            rows=said.words,
            weights=[by_word(layer, one.read.word_of, said.word_of) for layer in layers if said.words],
        )
        for one, answer, layers, said in zip(asked, answers, weights, rows, strict=True)
    ]


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
    _check_count("second text", len(system.segments(second).tokens), "tokens", longest)
