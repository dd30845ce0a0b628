"""A case of a trained classifier and texts as people write them."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.audits.case import Case
from regard.audits.ours import of_model
from regard.data.labelled import Labelled
from regard.data.segments import segments
from regard.runs.classifier import Classifier

Item = str | tuple[str, str] | Labelled


def of_texts(system: Classifier, items: Sequence[Item], **more: Any) -> Case:
    """The case of a classifier and texts, pairs of texts, or labelled texts with or without highlights."""
    if isinstance(items, str) or not items:
        raise ValueError("an audit needs texts: a list of at least one.")
    given = [item if isinstance(item, Labelled) else None for item in items]
    answers = system.classify([_asked(item) for item in items])
    texts = [answer.tokens for answer in answers]
    labelled = [item for item in given if item is not None]
    if len(labelled) == len(items):
        checked = [system.classes.check(item, f"text {number}") for number, item in enumerate(labelled, 1)]
        more.setdefault("labels", torch.tensor([system.classes.number[item.label] for item in checked]))
        if all(item.highlights is not None for item in labelled):
            more.setdefault("highlights", [_marked(system, item) for item in labelled])
    return of_model(
        system.model,
        texts,
        [answer.second_tokens for answer in answers] if system.classes.pairs else None,
        words=[answer.words for answer in answers],
        classes=system.labels,
        **more,
    )


def _asked(item: Item) -> str | tuple[str, str]:
    if not isinstance(item, Labelled):
        return item
    return item.text if item.second is None else (item.text, item.second)


def _marked(system: Classifier, item: Labelled) -> list[bool]:
    """For each token whether the word it is a part of is highlighted."""
    found = segments(system.tokenizer, item.text)
    marks = item.overlaps(found.spans)
    return [marks[word] for word in found.word_of]
