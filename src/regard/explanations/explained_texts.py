"""Texts as a user gives them: a trained classifier, a method, and a score for each word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.explanations.methods import explain
from regard.explanations.methods import METHODS
from regard.explanations.explained_texts import to_words
from regard.runs.classifier import Classification, Classifier, Text
from regard.runs.translator import batches_by_length
from regard.runs.words import word_of

POSITIONS = 4096  # tokens that are explained at once, padding included


@dataclass(frozen=True)
class Explanation:
    """What a method says of the words of one text."""

    text: str
    method: str
    label: str  # the class that the classifier says
    probability: float  # of that class
    words: list[str]
    scores: list[float]  # one for each word


def explain_texts(
    system: Classifier,
    texts: Sequence[Text],
    *,
    method: str = "attention",
    label: str | None = None,
    **options: Any,
) -> list[Explanation]:
    """Explain what a classifier says of each text, or the class `label`, word by word; pieces add up."""
    if label is not None and label not in system.classes.number:
        raise ValueError(f"no label {label!r}. Known: {', '.join(system.labels)}.")
    if label is not None and METHODS[method].needs in ("gradients", "outputs"):
        options["target"] = system.classes.number[label]
    answers = system.classify(texts)
    found: dict[int, Explanation] = {}
    for some in batches_by_length([len(answer.tokens) for answer in answers], POSITIONS):
        now = [answers[i] for i in some]
        if system.classes.pairs:
            options["second"] = system.padded([answer.second_tokens for answer in now])
        tokens, lengths = system.padded([answer.tokens for answer in now])
        scores = explain(system.model, tokens, lengths, method=method, **options)
        words, numbers = zip(*(words_of(answer) for answer in now), strict=True)
        for i, answer, shown, row in zip(some, now, words, to_words(scores, numbers), strict=True):
            probability = answer.probabilities[answer.label]
            found[i] = Explanation(
                answer.text, method, answer.label, probability, shown, row.to(torch.float64).tolist()
            )
    return [found[i] for i in range(len(answers))]


def words_of(answer: Classification) -> tuple[list[str], list[int]]:
    """The words of a text and the number of the word that each token is a part of.

    Where tokens are not parts of words (a space that was lost, say) each is its own word.
    """
    numbers = word_of(answer.system.tokenizer, answer.tokens)
    words = answer.text.split()
    if len(words) == max(numbers) + 1 == len(set(numbers)):
        return words, numbers
    return answer.words, list(range(len(answer.tokens)))
