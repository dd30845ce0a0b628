"""Texts as a user gives them: a trained classifier, a method, and a score for each word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.data.segments import segments
from regard.explanations.explain import explain
from regard.explanations.table import METHODS
from regard.explanations.words import to_words
from regard.runs.classifier import Classifier, Text
from regard.runs.translator import batches_by_length

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
    """Explain what a classifier says of each text, or the class `label`, word by word; tokens add up."""
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
        texts_now = [segments(system.tokenizer, answer.text) for answer in now]
        rows = to_words(scores, [text.word_of for text in texts_now])
        for i, answer, text, row in zip(some, now, texts_now, rows, strict=True):
            probability = answer.probabilities[answer.label]
            found[i] = Explanation(
                answer.text, method, answer.label, probability, text.words, row.to(torch.float64).tolist()
            )
    return [found[i] for i in range(len(answers))]
