"""Texts for planted models: generated sentiment, whose label words are known."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.tokens import UNK
from regard.data.corpora.sentiment import NEGATIVE, NEUTRAL, POSITIVE, sentiment
from regard.data.corpora.split import Split

WORDS = {word: UNK + 1 + i for i, word in enumerate([*POSITIVE, *NEGATIVE, *NEUTRAL])}
VOCABULARY = UNK + 1 + len(WORDS)
LABEL_WORDS = UNK + 1 + len(POSITIVE) + len(NEGATIVE)  # tokens from UNK + 1 up to here are label words
LENGTHS = (16, 20, 24)  # of texts; which one depends on the seed
TRAIN, TEST = 2000, 120  # texts


class Texts(NamedTuple):
    """Tokens and classes, to train on and to audit on; all texts of a seed are equally long."""

    tokens: Tensor  # (TRAIN, n)
    labels: Tensor  # (TRAIN,)
    test: Tensor  # (TEST, n)
    test_labels: Tensor  # (TEST,)


@lru_cache(maxsize=4)
def texts(seed: int) -> Texts:
    """The texts of a seed."""
    length = LENGTHS[seed % len(LENGTHS)]
    found: list[Tensor] = []
    sizes: dict[Split, int] = {"train": TRAIN, "test": TEST}
    for split, count in sizes.items():
        some = list(islice(sentiment(seed, split, length), count))
        found.append(torch.tensor([[WORDS[word] for word in one.text.split()] for one in some]))
        found.append(torch.tensor([int(one.label == "positive") for one in some]))
    return Texts(*found)


def is_label_word(tokens: Tensor) -> Tensor:
    """True for positive and negative words, of any shape."""
    return (tokens > UNK) & (tokens < LABEL_WORDS)


def neutral_words(shape: Sequence[int], draw: torch.Generator) -> Tensor:
    """Words that are no label words, drawn at random."""
    return torch.randint(LABEL_WORDS, VOCABULARY, tuple(shape), generator=draw)


def label_words(labels: Tensor, count: int, draw: torch.Generator) -> Tensor:
    """For each label (b,), 1 for positive, `count` different words of that class: (b, count)."""
    some = torch.rand(len(labels), len(POSITIVE), generator=draw).argsort(-1)[:, :count]
    return UNK + 1 + some + len(POSITIVE) * (1 - labels).unsqueeze(-1)
