"""C53: the causal mask hides the future, and without it a language model reads the answer."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import train
from regard.heads import MultiHead
from regard.maps import softmax
from regard.masks import Causal
from regard.positions import Relative
from regard.scores import ScaledDot

VOCABULARY, LOG = 8, 2.0794415416798357  # log 8


def attended(mask: Any) -> Callable[[Tensor], Tensor]:
    """Two heads over (b, n, 16)."""
    torch.manual_seed(0)
    attention = MultiHead(16, 2).double()
    return lambda x: attention(x, mask=mask).context


def filled_with_zeros(x: Tensor) -> Tensor:
    """Scores of the future are 0 instead of −∞."""
    n = x.shape[1]
    theta = ScaledDot()(x, x).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), 0.0)
    return softmax(theta) @ x


@torch.no_grad()
def seen(layer: Callable[[Tensor], Tensor], n: int = 7) -> float:
    """The largest change of an output when what comes after it changes."""
    x = torch.randn(2, n, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    most = 0.0
    for t in range(n - 1):
        other = x.clone()
        other[:, t + 1 :] += 1
        most = max(most, float((layer(x)[:, : t + 1] - layer(other)[:, : t + 1]).abs().max()))
    return most


class NextToken(nn.Module):
    """Says at every position which token comes next: one layer of attention."""

    def __init__(self, mask: Any, width: int = 32):
        super().__init__()
        self.embed, self.read = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
        self.attention = MultiHead(width, 2, score=ScaledDot() + Relative(width // 2, 2))
        self.mask = mask

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (b, n, vocabulary)."""
        x = self.embed(tokens)
        logits: Tensor = self.read(x + self.attention(x, mask=self.mask).context)
        return logits


def drawn(seed: int, size: int = 32, n: int = 10) -> Iterator[Tensor]:
    """Random tokens, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(VOCABULARY, (size, n), generator=generator)


def next_loss(model: NextToken, tokens: Tensor) -> Tensor:
    """Cross-entropy of the next token."""
    return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def left(mask: Any, seed: int) -> float:
    """The loss after 200 steps."""
    torch.manual_seed(seed)
    model = NextToken(mask)
    train(model, drawn(seed), 200, 1e-2, loss=next_loss)
    with torch.inference_mode():
        return float(next_loss(model, next(drawn(1000 + seed, sized(500)))))


@claim(
    "C53",
    group="Positions, heads, depth",
    fixed="c8690d8",
    says="The causal mask hides the future.",
    source="003:211; 004:1244",
    experiment="Change the future; train a language model on random tokens, 8 different, with and "
    "without the mask: nobody can do better than log 8 = 2.079 without seeing the answer.",
    control="Scores of 0 instead of −∞, and no mask at all.",
    conditions=[
        at_most(0, "outputs change by"),
        must_fail(at_least(1e-3, "outputs change by, scores of 0")),
        at_least(LOG - 0.01, "loss with the mask"),
        must_fail(at_most(0.1, "loss without it")),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=0.1,
)
def hidden_future(seed: int) -> Figures:
    """Changes and losses."""
    return {
        "outputs change by": seen(attended(Causal())),
        "outputs change by, scores of 0": seen(filled_with_zeros),
        "loss with the mask": left(Causal(), seed),
        "loss without it": left(None, seed),
    }
