"""Every classifier learns a generated task, and none without context learns one that needs it."""

from itertools import islice
from random import Random

import pytest
import torch

import regard
from regard.core.tokens import UNK
from regard.data.corpora.hotels import hotels
from regard.data.corpora.sentiment import sentiment
from regard.data.labelled import Labelled
from regard.models.classifiers import CLASSIFIERS

SMALL = {"embedding": 32, "dropout": 0.1, "word_dropout": 0.0}
WIDE = {"width": 32}


class Numbers(dict):
    """Words by number, in the order they come."""

    def __missing__(self, word):
        self[word] = UNK + 1 + len(self)
        return self[word]


def padded(rows):
    lengths = torch.tensor([len(row) for row in rows])
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True), lengths


def tensors(texts, numbers):
    """What a classifier is called with, and the classes."""
    given = padded([[numbers[word] for word in text.text.split()] for text in texts])
    if texts[0].second is not None:
        given += padded([[numbers[word] for word in text.second.split()] for text in texts])
    return given, torch.tensor([text.label == "positive" for text in texts]).long()


def learned(name, train, test, *, steps, rate=1e-2, **settings):
    """A model after so many steps of 64 texts, its accuracy on 500 others, and these."""
    torch.manual_seed(0)
    numbers = Numbers()
    if name == "hierarchical":
        settings["ends"] = (numbers["."],)
    model = CLASSIFIERS[name].make(**{"vocabulary": 400, "classes": 2, **SMALL, **settings})
    optimiser = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * min(1, (step + 1) / 20) * (1 - step / steps)
        given, wanted = tensors(list(islice(train, 64)), numbers)
        optimiser.zero_grad()
        (model.loss(wanted, *given) / 64).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    model.eval()
    held_out = list(islice(test, 500))
    given, wanted = tensors(held_out, numbers)
    with torch.no_grad(), regard.record(model, model.attention_paths["reader"]) as seen:
        right = (model(*given).argmax(-1) == wanted).float().mean().item()
    return right, model.over_words(seen), held_out


def mass(weights, texts):
    """The share of weight on the gold words, averaged over texts and queries."""
    gold = torch.zeros(weights.shape[0], 1, weights.shape[2])
    for row, text in zip(gold, texts, strict=True):
        row[0, : len(text.highlighted)] = torch.tensor(text.highlighted).float()
    return ((weights * gold).sum(-1) / weights.sum(-1).clamp(min=1e-9)).mean().item()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("attentive_bilstm", WIDE),
        ("attentive_bilstm", {**WIDE, "cell": "gru", "map": "entmax15"}),
        ("attentive_mlp", {**WIDE, "map": "sparsemax"}),
        ("attentive_cnn", {**WIDE, "windows": (1, 3)}),
        ("self_attentive", {**WIDE, "rows": 2, "compared": 16, "inner": 16, "penalty": 0.1}),
        ("transformer_encoder", {"heads": 2, "inner": 32, "layers": 1}),
        ("transformer_encoder", {"heads": 2, "inner": 32, "layers": 1, "read": "first", "steps": 250}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_model_learns_sentiment(name, settings):
    train, test = (sentiment(1, split, length=10) for split in ("train", "test"))
    right, weights, texts = learned(name, train, test, **{"steps": 150, **settings})
    assert right > 0.9
    if name != "transformer_encoder":
        assert mass(weights, texts) > 0.3  # there are 2 of 10


def test_hierarchical_attention_learns_a_document():
    train, test = (sentiment(1, split, length=12, most=1, sentences=3) for split in ("train", "test"))
    assert learned("hierarchical", train, test, steps=150, **WIDE)[0] > 0.9


@pytest.mark.slow
def test_an_aspect_needs_context():
    def streams():
        return (hotels(1, split, aspect="service", beside=0) for split in ("train", "test"))

    contextual = learned("attentive_bilstm", *streams(), steps=250, **WIDE)[0]
    alone = learned("attentive_mlp", *streams(), steps=250, **WIDE)[0]
    assert contextual > 0.9
    assert alone < 0.85


def asked(split):
    """Who was good? "anna great bert awful", "bert": negative."""
    chance = Random(split)
    names, good, bad = ("anna", "bert", "cora", "dora"), ("great", "fine"), ("awful", "poor")
    while True:
        who = chance.sample(names, 3)
        fine = [chance.random() < 0.5 for _ in who]
        said = [
            f"{name} {chance.choice(good if is_fine else bad)}"
            for name, is_fine in zip(who, fine, strict=True)
        ]
        k = chance.randrange(3)
        yield Labelled(" ".join(said), "positive" if fine[k] else "negative", who[k])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("attentive_bilstm", {**WIDE, "score": "bilinear"}),
        ("transformer_encoder", {"heads": 2, "inner": 32, "layers": 1, "score": "scaled_dot"}),
    ],
)
def test_a_second_text_asks_about_the_first(name, settings):
    right, _, _ = learned(name, asked("train"), asked("test"), steps=300, pairs=True, **settings)
    assert right > 0.9
