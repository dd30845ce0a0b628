"""C98: "the animal did not cross the street because it was too tired": a head looks from "it" to what it is.

The generator: two nouns of different kinds, in one of two orders, and an adjective that fits one kind. At
"it" the model is to say a fact about the noun meant (one of four, as a language with genders would need it),
which nothing but that noun tells. Said to hold if one head of the trained encoder, chosen on other sentences,
looks most at the noun meant in at least 0.8 of the sentences.

On seed 100 it did not (.61): heads share the work, and the adjective finds the noun by itself, so that "it"
may look there. Beside it, therefore, a language where the pronoun decides and not the adjective, a pronoun
for each kind (seed 100: .43), and the mean weights of a layer's heads (.67 and .91). FOUND says for each
language whether a head looks there in 0.8 of the sentences, and whether the heads of a layer do together.
"""

from functools import partial
from random import Random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from claims.experiment import FIRST, held, over_seeds, report, train
from regard.models import TRANSLATORS
from regard.recording import record

KINDS = {
    "tired hungry scared": "animal dog child horse",
    "wide steep muddy": "street river road field",
    "sharp blunt rusty": "knife sword needle saw",
    "ripe sour juicy": "apple plum pear grape",
    "boring funny lengthy": "book story letter film",
    "cloudy stormy windy": "day night morning evening",
}
ADJECTIVES, NOUNS = ([words.split() for words in side] for side in (KINDS, KINDS.values()))
PRONOUNS = ["it", "he", "she", "they", "one", "who"]  # one for each kind, where they decide
VERBS = ["cross", "see", "reach", "like", "notice", "leave"]
ORDERS = ["the A did not V the B because P was too J", "the A was not V by the B because P was too J"]
WORDS = sorted({*" ".join([*ORDERS, *PRONOUNS, *VERBS, *KINDS, *KINDS.values()]).split()} - set("AVBJP"))
IDS = {word: k for k, word in enumerate(WORDS, FIRST)}
GENDERS = 4  # the number of a noun in its kind


def sentences(seed, size=64, told="adjective"):
    """Tokens (size, n); where the pronoun, the noun meant and the other are, and the gender: (size,) each."""
    chance = Random(seed)
    while True:
        order = chance.choice(ORDERS).split()  # one for a batch: all are of one length
        rows, genders, meant, other = [], [], [], []
        for _ in range(size):
            kinds = chance.sample(range(len(NOUNS)), 2)
            which, numbers = chance.randrange(2), [chance.randrange(GENDERS) for _ in kinds]
            nouns = [NOUNS[kind][number] for kind, number in zip(kinds, numbers, strict=True)]
            said = {"A": nouns[0], "B": nouns[1], "V": chance.choice(VERBS), "P": "it"}
            if told == "adjective":
                said["J"] = chance.choice(ADJECTIVES[kinds[which]])
            else:
                said["J"], said["P"] = chance.choice(chance.choice(ADJECTIVES)), PRONOUNS[kinds[which]]
            rows.append([IDS[said.get(word, word)] for word in order])
            places = order.index("A"), order.index("B")
            genders.append(numbers[which])
            meant.append(places[which])
            other.append(places[1 - which])
        it = torch.full((size,), order.index("P"))
        yield torch.tensor(rows), it, torch.tensor(meant), torch.tensor(other), torch.tensor(genders)


class Reader(nn.Module):
    """The encoder of a Transformer, read at one place."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        n = FIRST + len(WORDS)
        self.inner = TRANSLATORS["transformer"].make(
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
def looks(model, seed, told):
    """Of 500 sentences: the share right, and how often each head (layers · heads,) looks most where.

    "together" is of the mean weights of a layer's heads (layers,).
    """
    found = {name: [] for name in ("right", "noun", "together", "other", "adjective", "adjective to noun")}
    for _, (tokens, it, meant, other, genders) in zip(range(5), sentences(seed, 100, told), strict=False):
        with record(model, "inner.encoder.*.attention") as seen:
            found["right"].append((model(tokens, it).argmax(-1) == genders).float())
        weights = torch.stack([calls[-1].weights for calls in seen.values()])  # (layers, b, heads, n, n)
        most, mean = weights.argmax(-1), weights.mean(2, keepdim=True).argmax(-1)
        last = torch.full_like(it, tokens.shape[1] - 1)
        for name, heads, at, to in (
            ("noun", most, it, meant),
            ("together", mean, it, meant),
            ("other", most, it, other),
            ("adjective", most, it, last),
            ("adjective to noun", most, last, meant),
        ):
            there = heads[:, torch.arange(len(tokens)), :, at] == to.view(-1, 1, 1)  # (b, layers, heads)
            found[name].append(there.float().flatten(1))
    return {name: torch.cat(parts).mean(0) for name, parts in found.items()}


def measure(seed, told="adjective", steps=800):
    model = Reader(seed)
    before = looks(model, 2000 + seed, told)
    train(model, sentences(seed, told=told), steps, loss=loss)
    best = looks(model, 1000 + seed, told)["noun"].argmax()
    after = looks(model, 2000 + seed, told)
    return {
        "accuracy": after["right"].item(),
        "at the noun meant": after["noun"][best].item(),
        "heads together at the noun meant": after["together"].max().item(),
        "at the other": after["other"][best].item(),
        "any head at the adjective": after["adjective"].max().item(),
        "any head from the adjective to the noun": after["adjective to noun"].max().item(),
        "untrained, best head": before["noun"].max().item(),
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


FOUND = {"adjective": (False, False), "pronoun": (False, False)}  # one head, the heads of a layer together


@pytest.mark.slow
@pytest.mark.parametrize("told", FOUND)
def test_c98_a_head_looks_from_it_to_what_it_is(told):
    found = over_seeds(partial(measure, told=told))
    report(f"C98 {told}", found)
    assert held(found["accuracy"], 0.95)
    one, together = found["at the noun meant"], found["heads together at the noun meant"]
    assert (held(one, 0.8), held(together, 0.8)) == FOUND[told]
    if told == "pronoun":
        assert held(together - one, 0.0)
    assert held(-found["at the other"], -0.2)
    assert held(-found["untrained, best head"], -0.5)  # control
