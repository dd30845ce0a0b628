"""C89 and C90: heads specialise, and the others can be pruned.

The generator: twelve words, drawn by Zipf's law from 40; at every place the encoder of a Transformer (2
layers of 8 heads) is to say the word before, the word after, and the rarest word of the sentence. So there is
work for neighbour heads and for rare-word heads, and for far fewer than sixteen. Said to hold if

C89  a head looks at the same neighbour from at least 0.9 of the places, one looks at the rarest word more
     than places permuted within sentences would have it (p < .01), and of the heads with a role a greater
     share is kept than of the others when heads are pruned at a price of 0.01;
C90  at a price of 0.01 half of the heads or more are closed, and accuracy falls by a point at most. (Of
     sixteen heads 8, 10, 8, 10 and 9 were kept: HALF.)

Whether heads of a model of real language specialise is another question: docs/heads_and_probes.md has one.
"""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from claims.experiment import FIRST, held, over_seeds, report, train
from regard.analyses import Positional, RareWords, TokenizedText, count_roles, prune
from regard.models import TRANSLATORS
from regard.recording import record

VOCABULARY, N, WIDTH, HEADS = 40, 12, 64, 8
HALF = False  # whether half of the heads are closed
OFTEN = 1 / torch.arange(1.0, VOCABULARY + 1)  # word 0 is the most frequent


class Tagger(nn.Module):
    """The encoder of a Transformer, and three words read at every place."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        n = FIRST + VOCABULARY
        self.inner = TRANSLATORS["transformer"].make(
            source_vocabulary=n,
            target_vocabulary=n,
            width=WIDTH,
            inner=128,
            heads=HEADS,
            layers=2,
            dropout=0.0,
        )
        self.read = nn.Linear(WIDTH, 3 * VOCABULARY)

    def forward(self, tokens):
        lengths = torch.full((len(tokens),), tokens.shape[1])
        return self.read(self.inner.encode(tokens, lengths).encoded).unflatten(-1, (3, VOCABULARY))


class Tagging:
    """What `prune` wants of a task: batches of tokens (b, n), a loss, and how well it went."""

    def __init__(self, seed):
        self.seed = seed

    def batches(self, epoch, skip=0, size=64):
        chance = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        while True:
            words = torch.multinomial(OFTEN, size * N, replacement=True, generator=chance).view(size, N)
            yield words + FIRST

    def wanted(self, tokens):
        """Words (b, n, 3); −1 where there is none before or after."""
        words = tokens - FIRST
        before, after = F.pad(words[:, :-1], (1, 0), value=-1), F.pad(words[:, 1:], (0, 1), value=-1)
        return torch.stack([before, after, words.amax(-1, keepdim=True).expand_as(words)], -1)

    def loss(self, model, tokens):
        wanted = self.wanted(tokens).flatten()
        loss = F.cross_entropy(model(tokens).flatten(0, 2), wanted, ignore_index=-1, reduction="sum")
        return loss, int((wanted >= 0).sum())

    def validate(self, model):
        tokens = next(self.batches(-1, size=500))
        loss, count = self.loss(model, tokens)
        right = (model(tokens).argmax(-1) == self.wanted(tokens)).sum()
        return {"loss": loss.item() / count, "accuracy": right.item() / count}


def weights(model, tokens):
    """Weights (b, layers, heads, n, n)."""
    with torch.no_grad(), record(model, "inner.encoder.*.attention") as seen:
        model(tokens)
    return torch.stack([calls[-1].weights for calls in seen.values()], 1)


def roles(model, tokens):
    counts = Counter({FIRST + k: int(1000 * share) for k, share in enumerate(OFTEN.tolist())})
    each = torch.eye(N, dtype=torch.bool)
    watched = (
        (one, TokenizedText(row.tolist(), each))
        for one, row in zip(weights(model, tokens), tokens, strict=True)
    )
    return count_roles(watched, {"positional": Positional(), "rare words": RareWords(counts, 0)})


def permuted(model, tokens, head, draws=200):
    """The share of a head's looks at the rarest word, less the most that permuted places give."""
    most = weights(model, tokens)[:, head.layer, head.head].argmax(-1)  # (b, n)
    rarest = tokens == tokens.amax(-1, keepdim=True)
    share = rarest.gather(1, most).float().mean().item()
    chance = torch.Generator().manual_seed(0)
    orders = (torch.rand(tokens.shape, generator=chance).argsort(-1) for _ in range(draws))
    return share - max(rarest.gather(1, order).gather(1, most).float().mean().item() for order in orders)


def measure(seed, steps=1500):
    model, task = Tagger(seed), Tagging(seed)
    train(model, task.batches(0), steps, loss=lambda model, tokens: torch.div(*task.loss(model, tokens)))
    tokens = next(task.batches(-2, size=200))
    before = {(head.layer, head.head): head for head in roles(model, tokens)}
    rare = max(before.values(), key=lambda head: head.best("rare words").score)
    found = prune(model, task, 0.01, paths="inner.encoder.*.attention", steps=600, rate=3e-4, seed=seed)
    kept = [
        before[layer, head]
        for layer, gates in enumerate(found.gates.values())
        for head, gate in enumerate(gates)
        if gate > 0
    ]
    special = [head for head in before.values() if head.roles]
    return {
        "accuracy": found.before["accuracy"],
        "positional, best head": max(head.best("positional").score for head in before.values()),
        "rarest word, best head": rare.best("rare words").score,
        "rarest word, above permutations": permuted(model, tokens, rare),
        "heads with a role": len(special),
        "heads kept": found.kept,
        "kept, of those with a role": sum(head in kept for head in special) / max(len(special), 1),
        "kept, of the others": sum(head not in special for head in kept) / max(len(before) - len(special), 1),
        "points lost": 100 * (found.before["accuracy"] - found.after["accuracy"]),
    }


def test_c89_the_generator_asks_for_three_words():
    task = Tagging(0)
    tokens = next(task.batches(0, size=3))
    wanted = task.wanted(tokens)
    for row, words in zip(wanted.tolist(), (tokens - FIRST).tolist(), strict=True):
        for i, (before, after, rarest) in enumerate(row):
            assert before == (words[i - 1] if i else -1) and after == (words[i + 1] if i < N - 1 else -1)
            assert rarest == max(words)


@pytest.mark.slow
def test_c89_c90_heads_specialise_and_the_others_can_be_pruned():
    found = over_seeds(measure)
    report("C89, C90", found)
    assert held(found["positional, best head"], 0.9)
    assert held(found["rarest word, above permutations"], 0.0)
    assert held(found["kept, of those with a role"] - found["kept, of the others"], 0.0)
    assert held(-found["heads kept"], -HEADS) == HALF  # of 2 · HEADS
    assert held(-found["heads kept"], 1 - 2 * HEADS)
    assert held(-found["points lost"], -1.0)
