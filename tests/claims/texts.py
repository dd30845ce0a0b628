"""What experiments on classifiers have in common: generated texts in ids, training, where models look."""

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from claims.experiment import FIRST, train
from regard import record
from regard.core.tokens import UNK
from regard.data.labelled import Labelled
from regard.models.classifiers import CLASSIFIERS

TRAIN, TEST, SIZE = 4000, 500, 64


class Encoded(NamedTuple):
    """Some texts; gold is 0 for padding."""

    wanted: torch.Tensor  # (b,), the class
    tokens: torch.Tensor  # (b, n)
    lengths: torch.Tensor  # (b,)
    gold: torch.Tensor  # (b, n), True for a highlighted word

    def some(self, rows):
        return Encoded(*(part[rows] for part in self))


class Texts:
    """A corpus, given as a function of the split: 4,000 texts to learn from, 500 others."""

    def __init__(self, corpus):
        texts = list(islice(corpus("train"), TRAIN))
        words = sorted({word for text in texts for word in text.text.split()})
        self.ids = {word: i for i, word in enumerate(words, FIRST)}
        self.labels = sorted({text.label for text in texts})
        self.train = self.encoded(texts)
        self.test = self.encoded(list(islice(corpus("test"), TEST)))

    @property
    def sizes(self):
        return {"vocabulary": FIRST + len(self.ids), "classes": len(self.labels)}

    def encoded(self, texts) -> Encoded:
        tokens = [torch.tensor([self.ids.get(word, UNK) for word in text.text.split()]) for text in texts]
        gold = [torch.tensor(text.highlighted) for text in texts]
        return Encoded(
            torch.tensor([self.labels.index(text.label) for text in texts]),
            pad_sequence(tokens, batch_first=True),
            torch.tensor([len(row) for row in tokens]),
            pad_sequence(gold, batch_first=True),
        )

    def batches(self, seed) -> Iterator[Encoded]:
        chance = np.random.default_rng(seed)
        while True:
            yield self.train.some(torch.from_numpy(chance.choice(TRAIN, SIZE, replace=False)))


def or_neither(corpus, seed, split):
    """The texts of a corpus with one gold word; in one of three it gives way to another word of the text.

    Where each text is of one of two classes, the words of one are enough, and not to see them says the rest.
    """
    chance = Random(f"{split} {seed}")
    for text in corpus(seed, split):
        if chance.random() < 1 / 3:
            (start, end), words = text.highlights[0], set(text.text.split()) - {"."}
            other = chance.choice(sorted(words - {text.text[start:end]}))
            text = Labelled(text.text[:start] + other + text.text[end:], "neither", None, ())
        yield text


def loss(model, batch):
    return model.loss(batch.wanted, batch.tokens, batch.lengths) / len(batch.wanted)


def fit(name, data, seed, steps, rate, **settings):
    """A classifier that has learned the texts of `data`."""
    torch.manual_seed(seed)
    model = CLASSIFIERS[name].make(**data.sizes, **settings)
    train(model, data.batches(seed), steps, rate, loss=loss)
    return model


@torch.inference_mode()
def looked(model, texts):
    """The share of classes right, and the weights over words (b, k, n)."""
    with record(model.eval(), model.attention_paths["reader"]) as seen:
        right = model(texts.tokens, texts.lengths).argmax(-1) == texts.wanted
    return right.float().mean().item(), model.over_words(seen)
