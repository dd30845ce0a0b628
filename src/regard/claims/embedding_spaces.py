"""C10, "it is essential that the embedding spaces of the input and output are aligned": for whom?

A word is looked up among eight, each with a class: the query is its vector in one space, the keys are vectors
in another, which is the same or the same turned by a random orthogonal matrix. Vectors are frozen; what a
score has to learn, it learns.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention
from regard.claims.claim import Figures, at_least, between, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import train
from regard.scores import Additive, Bilinear, Dot

VOCABULARY, WIDTH, N, CLASSES = 40, 16, 8, 10
SCORES: dict[str, Callable[[], nn.Module]] = {
    "dot": Dot,
    "bilinear": lambda: Bilinear(WIDTH, WIDTH),
    "additive": lambda: Additive(WIDTH, WIDTH, 64),
}
Lookups = tuple[tuple[Tensor, Tensor, Tensor], Tensor]


class Lookup(nn.Module):
    """The class of the key that is the query's word: the context of an attention over classes."""

    def __init__(self, score: nn.Module, source: Tensor, target: Tensor):
        super().__init__()
        self.attention, self.source, self.target = Attention(score), source, target

    def forward(self, query: Tensor, keys: Tensor, classes: Tensor) -> Tensor:
        """Words (b,) and (b, n), classes (b, n), to probabilities (b, classes)."""
        values = F.one_hot(classes, CLASSES).float()
        seen = self.attention(self.target[query].unsqueeze(1), self.source[keys], values)
        context: Tensor = seen.context
        return context.squeeze(1)


def spaces(seed: int, turned: bool) -> tuple[Tensor, Tensor]:
    """Vectors of the same words as keys and as queries, (vocabulary, width) each."""
    generator = torch.Generator().manual_seed(seed)
    source, other = (torch.randn(n, WIDTH, generator=generator) for n in (VOCABULARY, WIDTH))
    return source, source @ torch.linalg.qr(other).Q if turned else source


def lookups(seed: int, size: int = 128) -> Iterator[Lookups]:
    """Words to look up, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        keys = torch.rand(size, VOCABULARY, generator=generator).argsort(-1)[:, :N]
        at = torch.randint(N, (size, 1), generator=generator)
        classes = torch.randint(CLASSES, (size, N), generator=generator)
        query, wanted = (each.gather(1, at).squeeze(1) for each in (keys, classes))
        yield (query, keys, classes), wanted


def lookup_loss(model: Lookup, batch: Lookups) -> Tensor:
    """Negative log-likelihood of the class."""
    given, wanted = batch
    return F.nll_loss((model(*given) + 1e-6).log(), wanted)


def right(score: str, seed: int, turned: bool, steps: int = 300, learned: bool = False) -> float:
    """The share of classes found."""
    torch.manual_seed(seed)
    source, target = spaces(seed, turned)
    model = Lookup(SCORES[score](), source, nn.Parameter(target.clone()) if learned else target)
    if list(model.parameters()):
        train(model, lookups(seed), steps, 1e-2, loss=lookup_loss)
    given, wanted = next(lookups(1000 + seed, sized(2000, 64)))
    with torch.inference_mode():
        return float((model(*given).argmax(-1) == wanted).float().mean())


@claim(
    "C10",
    group="Bottleneck and distance",
    says="“It is essential” that the embedding spaces of source and target are aligned.",
    source="002:31",
    experiment="Look a word up among 8; key space turned by a random orthogonal matrix, vectors frozen.",
    control="Scores with a matrix, and vectors that are learned, turn one space into the other.",
    conditions=[
        at_least(0.2, "dot, aligned − dot, turned"),
        *(
            c
            for score in ("bilinear", "additive")
            for c in between(-0.02, 0.02, f"{score}, aligned − {score}, turned")
        ),
        must_fail(at_least(0.95, "bilinear, turned")),
        must_fail(at_least(0.95, "additive, turned")),
        must_fail(at_least(0.95, "dot, turned, vectors learned")),
    ],
    seeds=(5, 6, 7, 8, 9),
    fixed="c8690d8",
    minutes=0.3,
    only_if="the score is the dot product and vectors are frozen",
    changed="600 steps where vectors are learned: with 300 the control was below its threshold in some of "
    "seeds 0 to 4.",
)
def aligned_spaces(seed: int) -> Figures:
    """Shares found, by score."""
    found = {}
    for score in SCORES:
        found[f"{score}, aligned"] = right(score, seed, turned=False)
        found[f"{score}, turned"] = right(score, seed, turned=True)
    return found | {"dot, turned, vectors learned": right("dot", seed, True, 600, learned=True)}
