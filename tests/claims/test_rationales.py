"""C79: rationalizers are faithful, and find the words that decide; C80: contiguity makes spans.

Texts of `sentiment` (24 words, 2 of them gold in the mean) and `hotels-service` (an adjective and a noun);
4,000 to learn from, 500 others. Rationalizers of width 32, 500 steps of 64 texts; the target rate is the
default, .1 (of the words of either corpus .08 are gold). Settings were chosen with seed 100, before the five
seeds were run. F1 counts the words of all held-out texts together. That unselected words change nothing,
exactly, is in tests/models/test_rationalizers.py.
"""

from functools import cache
from itertools import islice

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from claims.experiment import FIRST, over_seeds, report, train
from regard.core.tokens import UNK
from regard.data.corpora.classes import LABELLED
from regard.models.classifiers import CLASSIFIERS
from regard.models.classifiers.rationalizer import changes
from regard.models.classifiers.rationalizer_entmax import RationalizerEntmax
from regard.models.classifiers.rationalizer_hardkuma import RationalizerHardKuma
from regard.models.classifiers.rationalizer_reinforce import RationalizerReinforce

KINDS = {
    "rationalizer_reinforce": RationalizerReinforce,
    "rationalizer_hardkuma": RationalizerHardKuma,
    "rationalizer_entmax": RationalizerEntmax,
}
TRAIN, TEST, SIZE, STEPS, RATE = 4000, 500, 64, 500, 3e-3
CONTIGUITY = {"sentiment": 0.0, "hotels-service": 0.1}


class Texts:
    """A generated corpus in ids: class (b,), tokens (b, n), lengths (b,), gold words (b, n)."""

    def __init__(self, corpus, seed):
        texts = list(islice(LABELLED[corpus](seed, "train"), TRAIN))
        words = sorted({word for text in texts for word in text.text.split()})
        self.ids = {word: i for i, word in enumerate(words, FIRST)}
        self.train = self.encoded(texts)
        self.test = self.encoded(list(islice(LABELLED[corpus](seed, "test"), TEST)))

    def encoded(self, texts):
        tokens = [torch.tensor([self.ids.get(word, UNK) for word in text.text.split()]) for text in texts]
        gold = [torch.tensor(text.highlighted) for text in texts]
        return (
            torch.tensor([int(text.label == "positive") for text in texts]),
            pad_sequence(tokens, batch_first=True),
            torch.tensor([len(row) for row in tokens]),
            pad_sequence(gold, batch_first=True),
        )

    def batches(self, seed):
        chance = np.random.default_rng(seed)
        while True:
            some = torch.from_numpy(chance.choice(TRAIN, SIZE, replace=False))
            yield tuple(part[some] for part in self.train)


@cache
def texts(corpus, seed):
    return Texts(corpus, seed)


def loss(model, batch):
    wanted, tokens, lengths, _ = batch
    return model.loss(wanted, tokens, lengths) / len(wanted)


def fitted(name, corpus, seed, steps=STEPS, **own):
    data = texts(corpus, seed)
    torch.manual_seed(seed)
    own = {"contiguity": CONTIGUITY[corpus], **own}
    sizes = {"vocabulary": FIRST + len(data.ids), "classes": 2, "embedding": 32, "width": 32}
    model = CLASSIFIERS[name].make(**sizes, dropout=0.1, word_dropout=0.05, **own)
    train(model, data.batches(seed), steps, RATE, loss=loss)
    return model


@torch.inference_mode()
def quality(model, data):
    """Of held-out texts: gold words found, words selected per word wanted, changes, classes right."""
    wanted, tokens, lengths, gold = data.test
    z = model.selected(tokens, lengths)
    return {
        "F1": (2 * (z & gold).sum() / (z.sum() + gold.sum())).item(),
        "rate/target": (z.sum() / lengths.sum()).item() / model.config.target_rate,
        "changes": changes(z.float(), lengths).mean().item(),
        "accuracy": (model(tokens, lengths).argmax(-1) == wanted).float().mean().item(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CONTIGUITY)
@pytest.mark.parametrize("name", KINDS)
def test_c79_the_words_that_decide_are_found(name, corpus):
    found = over_seeds(lambda seed: quality(fitted(name, corpus, seed), texts(corpus, seed)))
    report(f"C79 {name} {corpus}", found)
    assert np.median(found["F1"]) >= 0.8
    assert 0.8 <= np.median(found["rate/target"]) <= 1.2
    assert np.median(found["accuracy"]) >= 0.9


@pytest.mark.slow
def test_c79_reinforce_is_noisier_than_hardkuma():
    """Same weights, texts, scores; variance of the selector's gradient over its mean's squared length."""

    def measure(seed):
        data = texts("sentiment", seed)
        model = fitted("rationalizer_hardkuma", "sentiment", seed, steps=150)  # has begun to select
        batch = next(data.batches(seed + 1000))
        found = {}
        for name in ("rationalizer_reinforce", "rationalizer_hardkuma"):
            other = CLASSIFIERS[name].kind(model.config)
            other.load_state_dict(model.state_dict(), strict=False)
            other.train()
            other.words.eval()
            other.dropout.eval()  # z is all that is drawn
            found[name] = noise(other, batch)
        return {"ratio": found["rationalizer_reinforce"] / found["rationalizer_hardkuma"], **found}

    def noise(model, batch, draws=200):
        own = [*model.relevance.parameters(), *model.surroundings.parameters()]
        level, gradients = model.level.clone(), []
        for _ in range(draws):
            model.level.copy_(level)
            gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss(model, batch), own)]))
        gradients = torch.stack(gradients[5:])  # the baseline has settled
        return (gradients.var(0).sum() / gradients.mean(0).square().sum()).item()

    found = over_seeds(measure)
    report("C79 noise", found)
    assert np.median(found["ratio"]) >= 3


@pytest.mark.slow
def test_c80_contiguity_makes_spans():
    """Gold are two neighbours. Fewer changes with every step of λ₂, and the best F1 is not at λ₂ = 0."""
    prices = (0.0, 0.1, 0.3)

    def measure(seed):
        found = [
            quality(
                fitted("rationalizer_hardkuma", "hotels-service", seed, contiguity=price),
                texts("hotels-service", seed),
            )
            for price in prices
        ]
        return {name: [one[name] for one in found] for name in ("changes", "F1", "rate/target")}

    found = over_seeds(measure)
    report(f"C80 {prices}", found)
    assert (np.diff(found["changes"].mean(0)) < 0).all()
    assert found["F1"].mean(0).argmax() > 0
