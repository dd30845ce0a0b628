"""C98: "the animal did not cross the street because it was too tired": a head looks from "it" to what it is.

The generator: two nouns of different kinds, in one of two orders, and an adjective that fits one kind. At
"it" the model is to say a fact about the noun meant (one of four, as a language with genders would need it),
which nothing but that noun tells. Said to hold if one head of the trained encoder, chosen on other sentences,
looks most at the noun meant in at least 0.8 of the sentences.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from claims.experiment import FIRST, held, over_seeds, report, train
from regard.looking import record
from regard.models import MODELS

KINDS = {
    "tired hungry scared": "animal dog child horse",
    "wide steep muddy": "street river road field",
    "sharp blunt rusty": "knife sword needle saw",
    "ripe sour juicy": "apple plum pear grape",
    "boring funny lengthy": "book story letter film",
    "cloudy stormy windy": "day night morning evening",
}
ADJECTIVES, NOUNS = ([words.split() for words in side] for side in (KINDS, KINDS.values()))
VERBS = ["cross", "see", "reach", "like", "notice", "leave"]
ORDERS = ["the A did not V the B because it was too J", "the A was not V by the B because it was too J"]
WORDS = sorted({*" ".join([*ORDERS, *VERBS, *KINDS, *KINDS.values()]).split()} - set("AVBJ"))
IDS = {word: k for k, word in enumerate(WORDS, FIRST)}
GENDERS = 4  # the number of a noun in its kind


def sentences(seed, size=64):
    """Tokens (size, n); where "it", the noun meant and the other are, and the gender: (size,) each."""
    chance = torch.Generator().manual_seed(seed)

    def draw(n):
        return int(torch.randint(n, (), generator=chance))

    order = ORDERS[draw(2)].split()  # one for a batch: all are of one length
    while True:
        rows, genders, meant, other = [], [], [], []
        for _ in range(size):
            kinds = torch.randperm(len(NOUNS), generator=chance)[:2].tolist()
            which, numbers = draw(2), [draw(GENDERS), draw(GENDERS)]
            nouns = [NOUNS[kind][number] for kind, number in zip(kinds, numbers, strict=True)]
            said = {"A": nouns[0], "B": nouns[1], "V": VERBS[draw(6)], "J": ADJECTIVES[kinds[which]][draw(3)]}
            rows.append([IDS[said.get(word, word)] for word in order])
            places = order.index("A"), order.index("B")
            genders.append(numbers[which])
            meant.append(places[which])
            other.append(places[1 - which])
        it = torch.full((size,), order.index("it"))
        yield torch.tensor(rows), it, torch.tensor(meant), torch.tensor(other), torch.tensor(genders)
        order = ORDERS[draw(2)].split()


class Reader(nn.Module):
    """The encoder of a Transformer, read at one place."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        n = FIRST + len(WORDS)
        self.inner = MODELS["transformer"].make(
            source_vocabulary=n, target_vocabulary=n, width=32, inner=64, heads=4, layers=2, dropout=0.0
        )
        self.read = nn.Linear(32, GENDERS)

    def forward(self, tokens, at):
        lengths = torch.full((len(tokens),), tokens.shape[1])
        return self.read(self.inner.encode(tokens, lengths).encoded[torch.arange(len(tokens)), at])


def loss(model, batch):
    tokens, it, _, _, genders = batch
    return F.cross_entropy(model(tokens, it), genders)


@torch.no_grad()
def looks(model, seed):
    """Of 500 sentences: the share right; of each head (layers · heads,) its looks at noun and other."""
    right, at, wrong = [], [], []
    for _, (tokens, it, meant, other, genders) in zip(range(5), sentences(seed, 100), strict=False):
        with record(model, "inner.encoder.*.attention") as seen:
            right.append((model(tokens, it).argmax(-1) == genders).float())
        most = torch.stack([calls[-1].weights for calls in seen.values()]).argmax(-1)  # (layers, b, heads, n)
        most = most[:, torch.arange(len(tokens)), :, it]  # (b, layers, heads)
        at.append((most == meant.view(-1, 1, 1)).float().flatten(1))
        wrong.append((most == other.view(-1, 1, 1)).float().flatten(1))
    return torch.cat(right).mean().item(), torch.cat(at).mean(0), torch.cat(wrong).mean(0)


def measure(seed, steps=1500):
    model = Reader(seed)
    _, before, _ = looks(model, 2000 + seed)
    train(model, sentences(seed), steps, loss=loss)
    best = looks(model, 1000 + seed)[1].argmax()
    right, at, wrong = looks(model, 2000 + seed)
    return {
        "accuracy": right,
        "at the noun meant": at[best].item(),
        "at the other": wrong[best].item(),
        "untrained, best head": before.max().item(),
    }


def test_c98_the_generator_hides_nothing_and_tells_nothing_else():
    """The gender is a function of the noun meant, and independent of everything else that is said."""
    tokens, it, meant, other, genders = next(sentences(0, 4000))
    rows = torch.arange(4000)
    assert (tokens[rows, it] == IDS["it"]).all()
    assert {(int(a), int(g)) for a, g in zip(tokens[rows, meant], genders, strict=True)} == {
        (IDS[noun], k) for kind in NOUNS for k, noun in enumerate(kind)
    }
    for place in (other, torch.full_like(it, tokens.shape[1] - 1)):
        for word in tokens[rows, place].unique():
            shares = (
                genders[tokens[rows, place] == word].bincount(minlength=4)
                / (tokens[rows, place] == word).sum()
            )
            assert (shares - 0.25).abs().max() < 0.2
    assert (meant < other).float().mean().item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
def test_c98_a_head_looks_from_it_to_what_it_is():
    found = over_seeds(measure)
    report("C98", found)
    assert held(found["accuracy"], 0.95)
    assert held(found["at the noun meant"], 0.8)
    assert held(-found["at the other"], -0.2)
    assert held(-found["untrained, best head"], -0.5)  # control
