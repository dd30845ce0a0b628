"""What a classifier says of a text and where it looks, and how both change without some of the words.

Words that are not to be looked at are erased from the attention that reads the words; layers below it, which
look from word to word, stay as they are.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.recording import Record, intervene, record
from regard.runs.words import by_word
from regard.serve.asked import Asked, CannotAsk, How, asked
from regard.serve.classifier_run import ClassifierRun
from regard.serve.erasing import erase

Texts = tuple[Tensor, ...]  # tokens (1, n) and lengths (1,) of the text, and of the second if there is one


@dataclass(frozen=True, eq=False)
class Judged:
    """The probabilities of the classes and the weights behind them."""

    run: ClassifierRun
    question: Asked
    how: How
    label: str  # the likeliest; "" where there are no words to read
    probabilities: dict[str, float]  # of every label; none without words
    weights: Tensor  # (k, n), k queries or heads over the words that were read
    texts: Texts

    @property
    def source(self) -> list[str]:
        """The words that were read: the columns of the weights."""
        return self.question.source

    def over_words(self, look: int | None) -> Tensor:
        """Weights (n,) of one query or head, from 0; without one their mean."""
        return self.weights.mean(0) if look is None else self.weights[look]


def judge(
    run: ClassifierRun,
    text: str,
    words: Collection[int] = (),
    how: How = "as_it_is",
    *,
    second: str | None = None,
    longest: int | None = None,
) -> Judged:
    """Let a run classify a text without these words (numbers from 0), or as it is; `longest` is in tokens."""
    system = run.system
    question = asked(system.tokenizer, text, words, how, longest)
    if run.pairs and not (second or "").strip():
        raise CannotAsk(f"{run.name} takes two texts: the second must be given.")
    if not run.pairs and second is not None:
        raise CannotAsk(f"{run.name} takes one text; a second came.")
    if not question.places:
        return Judged(run, question, how, "", {}, torch.zeros(run.looks, 0), ())
    given = [system.tokenizer.encode(one) for one in (question.read, second) if one is not None]
    if not all(given):
        raise CannotAsk(f"{run.name} finds no token in this: there is nothing to classify.")
    if longest is not None and len(given[-1]) > longest:
        raise CannotAsk(f"the second text has {len(given[-1]):,} tokens; at most {longest:,} are read here.")
    try:
        texts = tuple(part for tokens in given for part in system.padded([tokens]))
        logits, seen = answered(run, question, texts, system.model.attention_paths["reader"])
    except ValueError as error:  # learned positions, for one, end somewhere
        raise CannotAsk(f"{run.name} cannot read this: {error}") from error
    if not bool(logits.isfinite().all()):
        raise CannotAsk(f"{run.name} gives no number: its weights are damaged or diverged.")
    row = logits.double().softmax(-1)[0].tolist()
    probabilities = dict(zip(system.labels, row, strict=True))
    label = max(probabilities, key=probabilities.__getitem__)
    weights = by_word(system.model.over_words(seen)[0], question.pieces, range(run.looks))
    return Judged(run, question, how, label, probabilities, weights, texts)


def answered(run: ClassifierRun, question: Asked, texts: Texts, paths: list[str]) -> tuple[Tensor, Record]:
    """Logits (1, classes), and what the attentions of these paths did with the first text alone."""
    model = run.system.model
    with torch.no_grad():
        condition = model.condition(*texts)  # what the second text asks: neither recorded nor erased
        with erasing(run, question), record(model, paths) as seen:
            return model.from_embedded(model.embed(texts[0]), texts[1], condition), seen


def erasing(run: ClassifierRun, question: Asked) -> AbstractContextManager[None]:
    """Erase what is not to be looked at, in this block."""
    if not question.erased:
        return nullcontext()
    n = len(question.pieces)

    def change(weights: Tensor) -> Tensor:
        ahead = weights.shape[-1] - n  # a place before the words, as BERT's [CLS]
        return erase(weights, [ahead + token for token in question.erased])

    return intervene(run.system.model, change, run.reader)
