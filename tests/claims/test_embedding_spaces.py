"""C10, "it is essential that the embedding spaces of the input and output are aligned": for whom?

A word is looked up among eight, each with a class: the query is its vector in one space, the keys are vectors
in another, which is the same or the same turned by a random orthogonal matrix. Vectors are frozen; what a
score has to learn, it learns.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from claims.experiment import SEEDS, held, over_seeds, report, train
from regard.attention import Attention
from regard.scores import Additive, Bilinear, Dot

VOCABULARY, WIDTH, N, CLASSES = 40, 16, 8, 10
SCORES = {
    "dot": Dot,
    "bilinear": lambda: Bilinear(WIDTH, WIDTH),
    "additive": lambda: Additive(WIDTH, WIDTH, 64),
}


class Lookup(nn.Module):
    """The class of the key that is the query's word: the context of an attention over classes."""

    def __init__(self, score, source, target):
        super().__init__()
        self.attention, self.source, self.target = Attention(score), source, target

    def forward(self, query, keys, classes):
        """Words (b,) and (b, n), classes (b, n), to probabilities (b, classes)."""
        values = F.one_hot(classes, CLASSES).float()
        return self.attention(self.target[query].unsqueeze(1), self.source[keys], values).context.squeeze(1)


def spaces(seed, turned):
    """Vectors of the same words as keys and as queries, (vocabulary, width) each."""
    generator = torch.Generator().manual_seed(seed)
    source, other = (torch.randn(n, WIDTH, generator=generator) for n in (VOCABULARY, WIDTH))
    return source, source @ torch.linalg.qr(other).Q if turned else source


def lookups(seed, size=128):
    generator = torch.Generator().manual_seed(seed)
    while True:
        keys = torch.rand(size, VOCABULARY, generator=generator).argsort(-1)[:, :N]
        at = torch.randint(N, (size, 1), generator=generator)
        classes = torch.randint(CLASSES, (size, N), generator=generator)
        query, wanted = (each.gather(1, at).squeeze(1) for each in (keys, classes))
        yield (query, keys, classes), wanted


def loss(model, batch):
    given, wanted = batch
    return F.nll_loss((model(*given) + 1e-6).log(), wanted)


def right(score, seed, turned, steps=300, learned=False):
    torch.manual_seed(seed)
    source, target = spaces(seed, turned)
    model = Lookup(SCORES[score](), source, nn.Parameter(target.clone()) if learned else target)
    if list(model.parameters()):
        train(model, lookups(seed), steps, 1e-2, loss=loss)
    given, wanted = next(lookups(1000 + seed, 2000))
    with torch.inference_mode():
        return (model(*given).argmax(-1) == wanted).float().mean().item()


def measure(seed):
    found = {}
    for score in SCORES:
        found[f"{score}, aligned"] = right(score, seed, turned=False)
        found[f"{score}, turned"] = right(score, seed, turned=True)
    return found | {"dot, turned, vectors learned": right("dot", seed, True, 600, learned=True)}


def test_c10_one_seed():
    assert right("dot", 0, turned=False) - right("dot", 0, turned=True) >= 0.2
    assert right("bilinear", 0, turned=True, steps=150) >= 0.95


@pytest.mark.slow
def test_c10_aligned_spaces_are_essential_for_the_dot_score_with_frozen_vectors_alone():
    """Scores with a matrix turn one space into the other, and so do vectors that are learned."""
    found = over_seeds(measure, SEEDS)
    report("C10", found)
    assert held(found["dot, aligned"] - found["dot, turned"], 0.2)
    for score in ("bilinear", "additive"):
        assert held(-abs(found[f"{score}, aligned"] - found[f"{score}, turned"]), -0.02)
        assert held(found[f"{score}, turned"], 0.95)
    assert held(found["dot, turned, vectors learned"], 0.95)
