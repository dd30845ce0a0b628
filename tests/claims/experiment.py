"""What the experiments have in common: pairs by the batch, a training loop, accuracy, and what the seeds say.

A claim about training is held if its statistic clears the threshold in the mean over five seeds and in at
least four of them.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from regard.core.tokens import EOS
from regard.data import Batch
from regard.decoding import greedy
from regard.tasks.translation import real, target_in
from regard.training.schedules import rate_at
from regard.training.training_settings import Training

SEEDS = range(5)
FIRST = 4  # the ids before are PAD, BOS, EOS and UNK


class Pairs:
    """A toy of regard.data.corpora, in ids: words are numbered in the order of the alphabet."""

    def __init__(self, toy, **settings):
        self.toy, self.settings = toy, settings
        some = list(islice(self.stream(0, "train"), 1000))
        words = [sorted({word for pair in some for word in pair[side].split()}) for side in (0, 1)]
        self.ids = [{word: i for i, word in enumerate(each, FIRST)} for each in words]

    @property
    def sizes(self):
        """The vocabularies, as a model wants them."""
        names = ("source_vocabulary", "target_vocabulary")
        return {name: FIRST + len(ids) for name, ids in zip(names, self.ids, strict=True)}

    def stream(self, seed, split, **settings):
        return self.toy(seed=seed, split=split, **(self.settings | settings))

    def batch(self, pairs) -> Batch:
        """Pairs of text as one batch."""
        source, target = (
            [torch.tensor([self.ids[side][word] for word in pair[side].split()]) for pair in pairs]
            for side in (0, 1)
        )
        return batch_of(source, target)

    def train(self, seed, size=64) -> Iterator[Batch]:
        """Batches without end; of 16 batches' pairs those of similar length come together."""
        stream, chance = self.stream(seed, "train"), np.random.default_rng(seed)
        while True:
            pairs = sorted(islice(stream, 16 * size), key=lambda pair: len(pair.source))
            for k in chance.permutation(16):
                yield self.batch(pairs[k * size : (k + 1) * size])

    def test(self, length, count=500) -> Batch:
        """Held-out pairs of one length, for every seed the same."""
        return self.batch(list(islice(self.stream(0, "test", shortest=length, longest=length), count)))


def batch_of(source, target) -> Batch:
    """Lists of ids (n,) and (m,), one each per pair, as a batch."""
    ended = [torch.cat([ids, torch.tensor([EOS])]) for ids in target]
    sides = {"source": source, "target": ended}
    return Batch(
        {name: pad_sequence(ids, batch_first=True) for name, ids in sides.items()},
        {name: torch.tensor([len(one) for one in ids]) for name, ids in sides.items()},
        torch.arange(len(source)),
    )


def inputs(batch):
    """What a translator is called with: source, its lengths, and what the decoder reads."""
    return batch["source"], batch.lengths["source"], target_in(batch["target"])


def read_real(model, batch):
    """Logits (tokens, vocabulary) and targets (tokens,) of the positions that are not padding."""
    hidden, wanted = real(model, batch)
    return model.logits(hidden), wanted


def translation_loss(model, batch, smoothing=0.0):
    return F.cross_entropy(*read_real(model, batch), label_smoothing=smoothing)


def train(model, batches, steps, rate=3e-3, *, warmup=50, schedule="cosine", loss=translation_loss):
    """Adam, clipped at 1, on the first `steps` batches: the losses, one per step."""
    plan = Training(steps=steps, rate=rate, warmup=warmup, schedule=schedule)
    optimiser, losses = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98)), []
    model.train()
    for step, batch in enumerate(islice(batches, steps), 1):
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
def accuracy(model, batch):
    """The share of target tokens, EOS among them, that are the likeliest, given the right ones before."""
    logits, wanted = read_real(model.eval(), batch)
    return (logits.argmax(-1) == wanted).float().mean().item()


def exact(model, batch):
    """The share of targets written without a mistake, greedily."""
    found = [best[0].tokens for best in greedy(model, batch["source"], batch.lengths["source"])]
    lengths = batch.lengths["target"] - 1
    wanted = [row[:n].tolist() for row, n in zip(batch["target"], lengths, strict=True)]
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)


def over_seeds(measure, seeds=SEEDS):
    """What measure(seed) gives, by name: {name: array (seeds,)}; a list of numbers is (seeds, numbers)."""
    found = []
    for seed in seeds:
        found.append(measure(seed))
        print("seed", seed, found[-1], flush=True)
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def held(values, threshold):
    """At least the threshold in the mean, and in four of five."""
    values = np.asarray(values)
    return bool(values.mean() >= threshold and (values >= threshold).mean() >= 0.8)


def interval(values, draws=10_000):
    """The mean and a bootstrap interval of 95 %, as the table of claims prints them."""
    values = np.asarray(values, dtype=float)
    means = np.random.default_rng(0).choice(values, (draws, len(values))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def report(claim, found):
    """Print what was measured, for docs/claims.md."""
    for name, values in found.items():
        columns = values.T if values.ndim == 2 else values[None]
        print(f"{claim} {name}: " + "  ".join(interval(column) for column in columns))
        print(f"{claim}   by seed: " + "; ".join(" ".join(f"{v:.3g}" for v in column) for column in columns))
