"""C47, one average does not say what came from where, and C48, the multi-head code of one lecture."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import train
from regard.claims.weights_not_unique import normal
from regard.heads import MultiHead
from regard.heads.convert import to_torch
from regard.models.parts.embedding import Embedding
from regard.positions import Sinusoidal

VOCABULARY, N, WIDTH = 20, 12, 64
entry = partial(claim, group="Positions, heads, depth")


class Convolution(nn.Module):
    """One matrix for each of the places −1, 0 and 1."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv1d(WIDTH, WIDTH, 3, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, width) to the same."""
        out: Tensor = self.inner(x.mT)
        return out.mT


class Neighbours(nn.Module):
    """At every position says which token came before and which comes after: one layer, then a reader."""

    def __init__(self, layer: nn.Module, hidden: int = 0):
        super().__init__()
        self.embed, self.layer = Embedding(VOCABULARY, WIDTH, Sinusoidal(WIDTH)), layer
        wide = [nn.Linear(WIDTH, hidden), nn.ReLU()] if hidden else []
        self.read = nn.Sequential(*wide, nn.Linear(hidden or WIDTH, 2 * VOCABULARY))

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to logits (b, n − 2, 2, vocabulary)."""
        z = self.layer(self.embed(tokens))
        logits: Tensor = self.read(getattr(z, "context", z))
        return logits[:, 1:-1].reshape(*tokens[:, 1:-1].shape, 2, VOCABULARY)


def neighbours(tokens: Tensor) -> Tensor:
    """The token before and the one after, of all but the ends: (b, n − 2, 2)."""
    return torch.stack([tokens[:, :-2], tokens[:, 2:]], -1)


def sequences(seed: int, size: int = 64) -> Iterator[Tensor]:
    """Random tokens (size, n), without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(VOCABULARY, (size, N), generator=generator)


def neighbour_loss(model: Neighbours, tokens: Tensor) -> Tensor:
    """Cross-entropy of both."""
    return F.cross_entropy(model(tokens).flatten(0, 2), neighbours(tokens).flatten())


def both_right(layer: Callable[[], nn.Module], seed: int, hidden: int = 0) -> float:
    """The share of positions at which both neighbours are named, after 1,000 steps."""
    torch.manual_seed(seed)
    model = Neighbours(layer(), hidden)
    train(model, sequences(seed), 1000, loss=neighbour_loss)
    tokens = next(sequences(1000 + seed, sized(500)))
    with torch.inference_mode():
        return float((model(tokens).argmax(-1) == neighbours(tokens)).all(-1).float().mean())


def margin(weight: float, other_weight: float, v: int = 4) -> float:
    """The most by which a matrix can let the token of the first weight win, of z = weight·e_a + other·e_b.

    A linear program over matrices M (v, v) for all tokens a ≠ b; the margin comes last.
    """
    rows = []
    for a, b, other in product(range(v), repeat=3):
        if a not in (b, other):
            z, row = np.zeros(v), np.zeros((v, v))
            z[a], z[b] = weight, other_weight
            row[a], row[other] = z, -z
            rows.append([*-row.flatten(), 1.0])
    bounds = [(-1, 1)] * (v * v) + [(None, None)]
    solved = linprog([0.0] * (v * v) + [-1.0], A_ub=rows, b_ub=np.zeros(len(rows)), bounds=bounds)
    return float(-solved.fun)


@entry(
    "C47",
    fixed="c8690d8",
    says="One average does not tell what came from where; several heads do.",
    source="004:1004-1034",
    experiment="Name the token before and the one after: one layer, then a linear reader; 1,000 "
    "steps. 1 head, 4 heads, a convolution of 3 (fewer parameters); 1 head with a hidden layer in the "
    "reader. A linear program: the margin of the best matrix, for weights that depend on places "
    "alone.",
    control="A convolution of 3.",
    conditions=[
        at_least(0.2, "4 heads − 1 head"),
        at_least(0.98, "4 heads"),
        at_most(1e-9, "largest margin of a matrix for the lower weight"),
        must_fail(at_least(0.98, "convolution of 3")),
        must_fail(at_least(0.9, "1 head, wide reader")),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=0.3,
    only_if="the reader is linear; with a hidden layer one head is enough: it weights its two "
    "neighbours differently",
    changed="1,000 steps: after 250 neither four heads nor one had learned it. The wide reader is a "
    "condition that the runs of seeds 0 to 4 showed.",
)
def averages(seed: int) -> Figures:
    """Shares of positions where both neighbours are named."""
    return {
        "1 head": both_right(lambda: MultiHead(WIDTH, 1), seed),
        "4 heads": both_right(lambda: MultiHead(WIDTH, 4), seed),
        "convolution of 3": both_right(Convolution, seed),
        "1 head, wide reader": both_right(lambda: MultiHead(WIDTH, 1), seed, hidden=128),
        "largest margin of a matrix for the lower weight": max(
            margin(s, 1 - s) for s in (0.5, 0.4, 0.3, 0.1, 0.0)
        ),
    }


def split_of_the_slides(x: Tensor, layer: nn.Linear, heads: int) -> Tensor:
    """Project to one head's width, then cut into heads, as the slide's code does."""
    out: Tensor = layer(x)
    return out.view(len(x), -1, heads, layer.out_features).transpose(1, 2)


@entry(
    "C48",
    fixed="a82a066",
    says="The multi-head code of one lecture.",
    source="004:1150",
    experiment="Linear(d, d/h), then view(b, −1, h, d/h), run literally with 8 heads at n = 5 and n "
    "= 8: does it run, and which heads change with position 3?",
    control="Ours equals torch.nn.MultiheadAttention.",
    conditions=[
        at_least(1, "runs at n = 5"),
        at_least(8, "heads that change with position 3, n = 8"),
        must_fail(at_least(8, "of ours")),
        must_fail(at_most(1e-12, "ours off torch's by")),
    ],
    exact=True,
    remark="False as printed: it fails unless the heads divide the length, and then each head is a position.",
)
def printed_heads(seed: int) -> Figures:
    """Whether it runs, and what it mixes."""
    d, heads = 16, 8
    torch.manual_seed(seed)
    narrow, ours = nn.Linear(d, d // heads).double(), MultiHead(d, heads).double()
    try:
        split_of_the_slides(normal(2, 5, d), narrow, heads)
        runs = 1.0
    except RuntimeError:
        runs = 0.0
    x = normal(1, 8, d)
    changed = x.clone()
    changed[:, 3] += 1
    moved = (split_of_the_slides(changed, narrow, heads) - split_of_the_slides(x, narrow, heads)).abs()
    seen, other = ours(x), ours(changed)
    return {
        "runs at n = 5": runs,
        "heads that change with position 3, n = 8": float((moved.amax((0, 2, 3)) > 0).sum()),
        "of ours": float(((other.keys - seen.keys).abs().amax((0, 2, 3)) > 0).sum()),
        "ours off torch's by": float((seen.context - to_torch(ours)(x, x, x)[0]).detach().abs().max()),
    }
