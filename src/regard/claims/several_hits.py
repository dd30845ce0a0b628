"""C22: weights need not sum to 1: sigmoid counts what softmax averages.

Twelve keys; those that match the query are hits, none to six of them. The target is the number of hits: the
context of an attention whose values are learned, read by a line. Softmax gives a mean over keys, in which the
number is lost unless scores stay low; sigmoid gives a sum. R² on other queries; both learn alike, 400 steps.
Beside it the mean of the hits' values, where softmax is in its element.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention
from regard.claims.claim import Figures, at_least, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import train
from regard.scores import Bilinear

KEYS, MOST, KINDS, WIDTH = 12, 6, 8, 16
Batch = tuple[Tensor, Tensor, Tensor]


class Counter(nn.Module):
    """Attends from one word to twelve; a line reads the context."""

    def __init__(self, map: str):
        super().__init__()
        self.embed = nn.Embedding(KINDS, WIDTH)
        self.attention = Attention(Bilinear(WIDTH, WIDTH), map)
        self.values, self.read = nn.Linear(WIDTH + 1, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, query: Tensor, keys: Tensor, numbers: Tensor) -> Tensor:
        """Words (b,) and (b, n) with a number each (b, n), to one number (b,)."""
        k = self.embed(keys)
        values = self.values(torch.cat([k, numbers.unsqueeze(-1)], -1))
        seen = self.attention(self.embed(query).unsqueeze(1), k, values)
        answer: Tensor = self.read(seen.context.squeeze(1))
        return answer.squeeze(-1)


def hits(seed: int, size: int = 64) -> Iterator[tuple[Batch, Tensor, Tensor]]:
    """Queries, keys and their numbers; how many keys are the query; the mean of their numbers, 0 of none."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        query = torch.randint(KINDS, (size,), generator=generator)
        keys = (query[:, None] + torch.randint(1, KINDS, (size, KEYS), generator=generator)) % KINDS
        count = torch.randint(MOST + 1, (size, 1), generator=generator)
        places = torch.rand(size, KEYS, generator=generator).argsort(-1).argsort(-1)
        hit = places < count
        keys = torch.where(hit, query[:, None], keys)
        numbers = torch.randn(size, KEYS, generator=generator)
        mean = (numbers * hit).sum(-1) / count.squeeze(-1).clamp(min=1)
        yield (query, keys, numbers), count.squeeze(-1).float(), mean


def explained(map: str, what: str, seed: int) -> float:
    """R² of the number of hits, or of their mean, on 2,000 other queries."""
    torch.manual_seed(seed)
    model = Counter(map)

    def loss(model: Counter, batch: tuple[Batch, Tensor, Tensor]) -> Tensor:
        return F.mse_loss(model(*batch[0]), batch[1] if what == "count" else batch[2])

    train(model, hits(seed), 400, 1e-2, loss=loss)
    given, count, mean = next(hits(1000 + seed, sized(2000)))
    wanted = count if what == "count" else mean
    with torch.inference_mode():
        return float(1 - F.mse_loss(model(*given), wanted) / wanted.var(correction=0))


@claim(
    "C22",
    group="Scores and maps",
    says="Weights need not sum to 1: with sigmoid several keys count each.",
    source="004:365",
    experiment="Twelve keys, none to six of them the query's word: the number of hits, R² of sigmoid "
    "and softmax, 400 steps each, equal parameters.",
    control="The mean of the hits' numbers: there softmax is no worse than sigmoid by more than .1.",
    conditions=[
        at_least(0.2, "sigmoid, count − softmax, count"),
        must_fail(at_least(-0.1, "softmax, mean − sigmoid, mean")),
    ],
    minutes=0.1,
    fixed="48abec4",
)
def counted(seed: int, map: str = "sigmoid") -> Figures:
    """R² of both targets by both maps; `map` is put in the place of sigmoid."""
    return {
        f"{name}, {what}": explained(used, what, seed)
        for what in ("count", "mean")
        for name, used in (("sigmoid", map), ("softmax", "softmax"))
    }
