"""C98: "the animal did not cross the street because it was too tired": a head looks from "it" to what it is.

Two nouns of different kinds, in one of two orders, and an adjective that fits one kind. At "it" the model is
to say a fact about the noun meant (one of four, as a language with genders would need it), which nothing but
that noun tells. Beside it a language where the pronoun decides and not the adjective.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import FIRST, train, translator
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
Sentences = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def sentences(seed: int, size: int = 64, told: str = "adjective") -> Iterator[Sentences]:
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

    def __init__(self, seed: int):
        super().__init__()
        n = FIRST + len(WORDS)
        sizes = {"source_vocabulary": n, "target_vocabulary": n, "width": 32, "inner": 64}
        self.inner = translator("transformer", seed, heads=4, layers=2, **sizes)
        self.read = nn.Linear(32, GENDERS)

    def forward(self, tokens: Tensor, at: Tensor) -> Tensor:
        """Logits (b, genders)."""
        lengths = torch.full((len(tokens),), tokens.shape[1])
        logits: Tensor = self.read(self.inner.encode(tokens, lengths).encoded[torch.arange(len(tokens)), at])
        return logits


def gender_loss(model: Reader, batch: Sentences) -> Tensor:
    """Cross-entropy of the gender at the pronoun."""
    tokens, it, _, _, genders = batch
    return F.cross_entropy(model(tokens, it), genders)


@torch.no_grad()
def looks(model: Reader, seed: int, told: str) -> dict[str, Tensor]:
    """Of 500 sentences: the share right, and how often each head (layers · heads,) looks most where.

    "together" is of the mean weights of a layer's heads (layers,).
    """
    found: dict[str, list[Any]] = {}
    for _, batch in zip(range(5), sentences(seed, sized(100, 4), told), strict=False):
        tokens, it, meant, other, genders = batch
        with record(model, "inner.encoder.*.attention") as seen:
            found.setdefault("right", []).append((model(tokens, it).argmax(-1) == genders).float())
        weights = torch.stack([calls[-1].weights for calls in seen.values()])  # (layers, b, heads, n, n)
        most, mean = weights.argmax(-1), weights.mean(2, keepdim=True).argmax(-1)
        last = torch.full_like(it, tokens.shape[1] - 1)
        for name, heads, at, to in (
            ("noun", most, it, meant),
            ("together", mean, it, meant),
            ("other", most, it, other),
            ("adjective", most, it, last),
        ):
            there = heads[:, torch.arange(len(tokens)), :, at] == to.view(-1, 1, 1)  # (b, layers, heads)
            found.setdefault(name, []).append(there.float().flatten(1))
    return {name: torch.cat(parts).mean(0) for name, parts in found.items()}


def read(seed: int, told: str) -> Figures:
    """Where the trained heads look, the best of them chosen on other sentences."""
    model = Reader(seed)
    before = looks(model, 2000 + seed, told)
    train(model, sentences(seed, told=told), 800, loss=gender_loss)
    best = looks(model, 1000 + seed, told)["noun"].argmax()
    after = looks(model, 2000 + seed, told)
    return {
        "accuracy": after["right"].item(),
        "best head at the noun": after["noun"][best].item(),
        "heads together at the noun": after["together"].max().item(),
        "best head at the other": after["other"][best].item(),
        "any head at the adjective": after["adjective"].max().item(),
        "untrained, best head": before["noun"].max().item(),
    }


@claim(
    "C98",
    group="Classifiers and explanations",
    fixed="74b53ef",
    says="“It” looks at the animal: there is a head for coreference.",
    source="004:911; 004:1766",
    experiment="Two nouns, “because it was too tired”: name the gender of the noun meant, at “it”. 2 "
    "layers of 4 heads, 800 steps; one head, chosen on other sentences, is to look most at that noun "
    "in .8 of the sentences.",
    control="The same heads before training.",
    conditions=[
        at_least(0.8, "adjective tells: best head at the noun", "a head looks at the noun"),
        at_least(
            0.8,
            "pronoun tells: heads together at the noun",
            "heads of a layer do together, where the pronoun tells",
        ),
        must_fail(at_least(0.95, "adjective tells: accuracy")),
        must_fail(at_most(0.5, "adjective tells: untrained, best head")),
    ],
    minutes=0.3,
    changed="The second language was added after seed 100.",
    remark="Heads share the work, and the adjective can find the noun in the place of “it”.",
)
def meant(seed: int) -> Figures:
    """Where heads look, in two languages."""
    return {
        f"{told} tells: {what}": value
        for told in ("adjective", "pronoun")
        for what, value in read(seed, told).items()
    }
