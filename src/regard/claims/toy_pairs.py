"""What experiments on translators share: toy pairs in ids by the batch, a training loop, accuracy."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from regard.claims.quick import few, sized
from regard.core.tokens import EOS
from regard.data import Batch
from regard.data.corpora.phrase import Pair
from regard.decoding import greedy
from regard.models import TRANSLATORS
from regard.tasks.translation import real, target_in
from regard.training.schedules import rate_at
from regard.training.training_settings import Training

FIRST = 4  # the ids before are PAD, BOS, EOS and UNK
Loss = Callable[[Any, Any], Tensor]


class Pairs:
    """A toy of regard.data.corpora, in ids: words are numbered in the order of the alphabet."""

    def __init__(self, toy: Callable[..., Iterator[Pair]], **settings: Any):
        self.toy, self.settings = toy, settings
        some = list(islice(self.stream(0, "train"), 1000))
        words = [sorted({word for pair in some for word in sides_of(pair)[side].split()}) for side in (0, 1)]
        self.ids = [{word: i for i, word in enumerate(each, FIRST)} for each in words]

    @property
    def sizes(self) -> dict[str, int]:
        """The vocabularies, as a model wants them."""
        names = ("source_vocabulary", "target_vocabulary")
        return {name: FIRST + len(ids) for name, ids in zip(names, self.ids, strict=True)}

    def stream(self, seed: int, split: str, **settings: Any) -> Iterator[Pair]:
        """Pairs of text without end."""
        return self.toy(seed=seed, split=split, **(self.settings | settings))

    def batch(self, pairs: Iterable[Pair]) -> Batch:
        """Pairs of text as one batch."""
        rows = list(pairs)
        source, target = (
            [torch.tensor([self.ids[side][word] for word in sides_of(pair)[side].split()]) for pair in rows]
            for side in (0, 1)
        )
        return batch_of(source, target)

    def train(self, seed: int, size: int = 64) -> Iterator[Batch]:
        """Batches without end; of 16 batches' pairs those of similar length come together."""
        stream, chance = self.stream(seed, "train"), np.random.default_rng(seed)
        while True:
            pairs = sorted(islice(stream, 16 * size), key=lambda pair: len(pair.source))
            for k in chance.permutation(16):
                yield self.batch(pairs[k * size : (k + 1) * size])

    def test(self, length: int, count: int = 500) -> Batch:
        """Held-out pairs of one length, for every seed the same."""
        some = self.stream(0, "test", shortest=length, longest=length)
        return self.batch(islice(some, sized(count)))

    def held_out(self, count: int = 200) -> list[Pair]:
        """Held-out pairs of all lengths, for every seed the same."""
        return list(islice(self.stream(0, "test"), sized(count)))


def sides_of(pair: Pair) -> tuple[str, str]:
    """Source and target."""
    return pair.source, pair.target


def batch_of(source: Sequence[Tensor], target: Sequence[Tensor]) -> Batch:
    """Lists of ids (n,) and (m,), one each per pair, as a batch."""
    ended = [torch.cat([ids, torch.tensor([EOS])]) for ids in target]
    sides = {"source": list(source), "target": ended}
    return Batch(
        {name: pad_sequence(ids, batch_first=True) for name, ids in sides.items()},
        {name: torch.tensor([len(one) for one in ids]) for name, ids in sides.items()},
        torch.arange(len(source)),
    )


def translator(name: str, seed: int, **settings: Any) -> Any:
    """A translator with first weights by the seed, without dropout unless it is given."""
    torch.manual_seed(seed)
    return TRANSLATORS[name].make(**({"dropout": 0.0} | settings))


def inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """What a translator is called with: source, its lengths, and what the decoder reads."""
    return batch["source"], batch.lengths["source"], target_in(batch["target"])


def read_real(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (tokens, vocabulary) and targets (tokens,) of the positions that are not padding."""
    hidden, wanted = real(model, batch)
    return model.logits(hidden), wanted


def translation_loss(model: Any, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy per target token."""
    return F.cross_entropy(*read_real(model, batch), label_smoothing=smoothing)


def train(
    model: nn.Module,
    batches: Iterable[Any],
    steps: int,
    rate: float = 3e-3,
    *,
    warmup: int = 50,
    schedule: Literal["cosine", "constant"] = "cosine",
    loss: Loss = translation_loss,
) -> list[float]:
    """Adam, clipped at 1, on the first `steps` batches: the losses, one per step."""
    plan = Training(steps=steps, rate=rate, warmup=warmup, schedule=schedule)
    optimiser, losses = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98)), []
    model.train()
    for step, batch in enumerate(islice(batches, few(steps)), 1):
        optimiser.param_groups[0]["lr"] = rate_at(step, plan)
        value = loss(model, batch)
        optimiser.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(value.item())
    model.eval()
    return losses


@torch.inference_mode()
def accuracy(model: Any, batch: Batch) -> float:
    """The share of target tokens, EOS among them, that are the likeliest, given the right ones before."""
    logits, wanted = read_real(model.eval(), batch)
    return float((logits.argmax(-1) == wanted).float().mean())


def all_right(model: Any, batch: Batch) -> float:
    """The share of targets written without a mistake, greedily."""
    found = [best[0].tokens for best in greedy(model, batch["source"], batch.lengths["source"])]
    lengths = batch.lengths["target"] - 1
    wanted = [row[:n].tolist() for row, n in zip(batch["target"], lengths, strict=True)]
    return float(np.mean([a == b for a, b in zip(found, wanted, strict=True)]))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of a straight line through the points."""
    return float(np.polyfit(x, y, 1)[0])


def exponent(sizes: Sequence[float], counts: Sequence[float]) -> float:
    """The exponent e in counts ~ sizesᵉ."""
    return slope(np.log(sizes).tolist(), np.log(counts).tolist())
