"""What experiments on classifiers share: generated texts in ids, training, where models look."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.claims.quick import sized
from regard.claims.toy_pairs import FIRST, train
from regard.core.counting import counted
from regard.core.tokens import UNK
from regard.data.labelled import Labelled, labelled
from regard.data.segments import split_at_spaces
from regard.models.classifiers import CLASSIFIERS
from regard.recording import record

TRAIN, TEST, SIZE = 4000, 500, 64


class Encoded(NamedTuple):
    """Some texts; gold is False for padding."""

    wanted: Tensor  # (b,), the class
    tokens: Tensor  # (b, n)
    lengths: Tensor  # (b,)
    gold: Tensor  # (b, n), True for a highlighted word

    def some(self, rows: Any) -> "Encoded":
        """Those of these rows."""
        return Encoded(*(part[rows] for part in self))


class Texts:
    """A corpus, given as a function of the split: 4,000 texts to learn from, 500 others."""

    def __init__(self, corpus: Callable[[str], Iterator[Labelled]]):
        texts = list(islice(corpus("train"), sized(TRAIN, 96)))
        if any(text.second is not None for text in texts):
            raise ValueError("--data has pairs of texts; the models of these claims read one text.")
        words = sorted({word for text in texts for word in text.text.split()})
        self.ids = {word: i for i, word in enumerate(words, FIRST)}
        self.labels = sorted({text.label for text in texts})
        self.train = self.encoded(texts)
        known = (text for text in corpus("test") if text.label in self.labels)
        self.test = self.encoded(list(islice(known, sized(TEST, 24))))

    @property
    def sizes(self) -> dict[str, int]:
        """Vocabulary and classes, as a model wants them."""
        return {"vocabulary": FIRST + len(self.ids), "classes": len(self.labels)}

    def encoded(self, texts: list[Labelled]) -> Encoded:
        """Texts as tokens."""
        tokens = [torch.tensor([self.ids.get(word, UNK) for word in text.text.split()]) for text in texts]
        gold = [torch.tensor(text.overlaps(split_at_spaces(text.text))) for text in texts]
        return Encoded(
            torch.tensor([self.labels.index(text.label) for text in texts]),
            pad_sequence(tokens, batch_first=True),
            torch.tensor([len(row) for row in tokens]),
            pad_sequence(gold, batch_first=True),
        )

    def batches(self, seed: int) -> Iterator[Encoded]:
        """Batches without end, drawn from the texts to learn from."""
        chance, count = np.random.default_rng(seed), len(self.train.wanted)
        while True:
            rows = chance.choice(count, min(SIZE, count), replace=False)
            yield self.train.some(torch.from_numpy(rows))


def from_file(data: str) -> Callable[[str], Iterator[Labelled]]:
    """Labelled texts of a user's file (.tsv, .csv, .jsonl), every fifth of them for the test."""
    texts = [one for one in labelled(Path(data)) if one.text.split()]
    if len(texts) < 50:
        raise ValueError(f"--data {data} must have at least 50 labelled texts; got {len(texts)}.")
    count = len({one.label for one in texts})
    if not 2 <= count <= len(texts) // 5:
        raise ValueError(
            f"--data {data} must have at least two labels, with five texts each on average; "
            f"got {counted(count, 'label')} for {len(texts)} texts, {texts[0].label[:40]!r} the first. "
            "A TSV without a header is text, tab, label."
        )

    def corpus(split: str) -> Iterator[Labelled]:
        return iter([one for k, one in enumerate(texts) if (k % 5 == 4) == (split == "test")])

    return corpus


def or_neither(corpus: Callable[[int, str], Iterator[Labelled]], seed: int, split: str) -> Iterator[Labelled]:
    """The texts of a corpus with one gold word; in one of three it gives way to another word of the text.

    Where each text is of one of two classes, the words of one are enough, and not to see them says the rest.
    """
    chance = Random(f"{split} {seed}")
    for text in corpus(seed, split):
        if chance.random() < 1 / 3:
            ((start, end), *_), words = text.highlights or (), set(text.text.split()) - {"."}
            other = chance.choice(sorted(words - {text.text[start:end]}))
            yield Labelled(text.text[:start] + other + text.text[end:], "neither", None, ())
        else:
            yield text


def class_loss(model: Any, batch: Encoded) -> Tensor:
    """Cross-entropy per text, with whatever the model adds to it."""
    loss: Tensor = model.loss(batch.wanted, batch.tokens, batch.lengths)
    return loss / len(batch.wanted)


def fit(name: str, data: Texts, seed: int, steps: int, rate: float, **settings: Any) -> Any:
    """A classifier that has learned the texts of `data`."""
    torch.manual_seed(seed)
    model = CLASSIFIERS[name].make(**data.sizes, **settings)
    train(model, data.batches(seed), steps, rate, loss=class_loss)
    return model


@torch.inference_mode()
def looked(model: Any, texts: Encoded) -> tuple[float, Tensor]:
    """The share of classes right, and the weights over words (b, k, n)."""
    with record(model.eval(), model.attention_paths["reader"]) as seen:
        right = model(texts.tokens, texts.lengths).argmax(-1) == texts.wanted
    return right.float().mean().item(), model.over_words(seen)
