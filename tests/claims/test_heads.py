"""C47, one average does not say what came from where, and C48, the multi-head code of one lecture.

C48 is tests/test_corrections.py, correction 6: the code fails unless the heads divide the length, and then
mixes positions; ours equals torch.nn.MultiheadAttention.
"""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn
from torch.nn import functional as F

from claims.experiment import SEEDS, held, over_seeds, report, train
from regard.heads import MultiHead
from regard.models.parts.embedding import Embedding
from regard.positions import Sinusoidal

VOCABULARY, N, WIDTH = 20, 12, 64


class Convolution(nn.Module):
    """One matrix for each of the places −1, 0 and 1."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv1d(WIDTH, WIDTH, 3, padding="same")

    def forward(self, x):
        return self.inner(x.mT).mT


class Neighbours(nn.Module):
    """At every position says which token came before and which comes after: one layer, then a reader."""

    def __init__(self, layer, hidden=0):
        super().__init__()
        self.embed, self.layer = Embedding(VOCABULARY, WIDTH, Sinusoidal(WIDTH)), layer
        wide = [nn.Linear(WIDTH, hidden), nn.ReLU()] if hidden else []
        self.read = nn.Sequential(*wide, nn.Linear(hidden or WIDTH, 2 * VOCABULARY))

    def forward(self, tokens):
        """Tokens (b, n) to logits (b, n − 2, 2, vocabulary)."""
        z = self.layer(self.embed(tokens))
        return self.read(getattr(z, "context", z))[:, 1:-1].unflatten(-1, (2, VOCABULARY))


def neighbours(tokens):
    return torch.stack([tokens[:, :-2], tokens[:, 2:]], -1)


def sequences(seed, size=64):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(VOCABULARY, (size, N), generator=generator)


def loss(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 2), neighbours(tokens).flatten())


def both_right(layer, seed, steps, hidden=0):
    """The share of positions at which both neighbours are named."""
    torch.manual_seed(seed)
    model = Neighbours(layer(), hidden)
    train(model, sequences(seed), steps, loss=loss)
    tokens = next(sequences(1000 + seed, 500))
    with torch.inference_mode():
        return (model(tokens).argmax(-1) == neighbours(tokens)).all(-1).float().mean().item()


LAYERS = {"1 head": lambda: MultiHead(WIDTH, 1), "4 heads": lambda: MultiHead(WIDTH, 4), "k = 3": Convolution}


def measure(seed, steps=1000):
    found = {name: both_right(layer, seed, steps) for name, layer in LAYERS.items()}
    return found | {"1 head, wide reader": both_right(LAYERS["1 head"], seed, steps, hidden=128)}


def test_c47_all_have_as_many_parameters_and_the_convolution_has_fewer():
    one, four, convolution = (sum(p.numel() for p in make().parameters()) for make in LAYERS.values())
    assert one == four > convolution


def test_c47_no_matrix_reads_both_neighbours_out_of_one_average():
    """The ceiling, where weights depend on places alone: z = λ e_a + (1 − λ) e_b for all tokens a ≠ b, and
    each of the two is to be read by a matrix M of its own.

    For the one of weight λ ≤ ½, (Mz)_a > (Mz)_b for all a, b asks that M be larger off its diagonal than on
    it, in the mean, and (Mz)_a > (Mz)_v for all other v the contrary. As a linear program: the largest margin
    is 0, whatever λ.
    """

    def margin(weight, other_weight, v=4):
        """The most by which the token of the first weight can win; M is (v, v), the margin comes last."""
        rows = []
        for a, b, other in product(range(v), repeat=3):
            if a not in (b, other):
                z, row = np.zeros(v), np.zeros((v, v))
                z[a], z[b] = weight, other_weight
                row[a], row[other] = z, -z
                rows.append([*-row.flatten(), 1.0])
        bounds = [(-1, 1)] * (v * v) + [(None, None)]
        solved = linprog([0.0] * (v * v) + [-1.0], A_ub=rows, b_ub=np.zeros(len(rows)), bounds=bounds)
        return -solved.fun

    for share in (0.5, 0.4, 0.3, 0.1, 0.0):
        assert margin(share, 1 - share) == pytest.approx(0, abs=1e-9)
        assert margin(1 - share, share) > 0.1 or share == 0.5  # the other of the two can be read


@pytest.mark.slow
def test_c47_one_seed():
    found = {name: both_right(layer, 0, 400) for name, layer in LAYERS.items()}
    assert found["4 heads"] - found["1 head"] >= 0.2
    assert found["k = 3"] >= 0.98


@pytest.mark.slow
def test_c47_several_heads_say_what_came_from_where():
    """Holds where a matrix reads the average. The condition: with a hidden layer in the reader one head is
    enough, since it gives its two neighbours different weights and the reader tells them apart."""
    found = over_seeds(measure, SEEDS)
    report("C47", found)
    assert held(found["4 heads"] - found["1 head"], 0.2)
    assert held(found["k = 3"], 0.98)
    assert held(found["4 heads"], 0.98)
    assert held(found["1 head, wide reader"], 0.9)
