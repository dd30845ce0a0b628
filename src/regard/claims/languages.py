"""C29: structural biases help where there is little to learn from; C30: position knows that i/I ≈ j/J.

500 pairs of languages of 20 words, 3 to 10 at a time, another word for each:

    monotone    in the same order
    sorted      in the order of the dictionary, whatever the sentence: neighbours in one are not in the other
    fertile     as monotone, but a word stands for 1, 2 or 3, always the same
    memoryless  as monotone, but a word is said until a coin falls on its other side: how often it has been
                said tells nothing about the next time
    reversed    (C30 alone) from last to first

`bahdanau` (width 32, additive score, dropout .2) learns each with and without one bias, from the same first
weights and with the same batches; what counts is the least perplexity of 300 held-out pairs along 400 steps.
"""

import math
from collections.abc import Iterator
from functools import partial
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn import functional as F

from regard.attention import concat_steps
from regard.claims.claim import Condition, Figures, at_least, at_most, between, claim, must_fail
from regard.claims.quick import remembered, sized
from regard.claims.toy_pairs import FIRST, batch_of, inputs, read_real, train, translator
from regard.data import Batch
from regard.losses import trace
from regard.models.both_directions import TwoWay
from regard.recording import record
from regard.tasks.structural_losses import between_words
from regard.tasks.translation import TRANSLATION, reversed_batch

WORDS, PAIRS, HELD_OUT, SIZE = 20, 500, 300, 50
STEPS, EVERY = 400, 25
BIASES = {  # the language that has the property, and one that has it not
    "position": ("position", "monotone", "sorted"),
    "Markov": ("markov:2", "monotone", "sorted"),
    "local fertility": ("fertility:1", "fertile", "memoryless"),
    "global fertility": ("global-fertility", "fertile", "memoryless"),
}
entry = partial(claim, group="Alignment", fixed="a6923fc")
Words = tuple[Tensor, Tensor]


def said(word: int, language: str, chance: Random) -> list[int]:
    """The words that stand for a word: numbers from 3 · word on, or the same one again and again."""
    if language == "fertile":
        return [3 * word + k for k in range(1 + word % 3)]
    if language == "memoryless":
        times = 1
        while chance.random() < 0.5:
            times += 1
        return [3 * word] * times
    return [3 * word]


def pairs(language: str, seed: int) -> Iterator[Words]:
    """Pairs of ids without end."""
    chance = Random(f"{language} {seed}")
    while True:
        words = [chance.randrange(WORDS) for _ in range(chance.randint(3, 10))]
        order = {"sorted": sorted(words), "reversed": words[::-1]}.get(language, words)
        target = [t for word in order for t in said(word, language, chance)]
        yield torch.tensor(words) + FIRST, torch.tensor(target) + FIRST


class Data:
    """500 pairs to learn from, over and over, and 300 others."""

    def __init__(self, language: str, seed: int):
        stream = pairs(language, seed)
        self.train, others = list(islice(stream, PAIRS)), list(islice(stream, HELD_OUT))
        self.held_out = self.batch(others[: sized(HELD_OUT, 16)])

    def batches(self, seed: int) -> Iterator[Batch]:
        """Batches without end."""
        chance = np.random.default_rng(seed)
        while True:
            order = chance.permutation(PAIRS)
            for part in np.array_split(order, PAIRS // SIZE):
                yield self.batch([self.train[k] for k in part])

    def batch(self, some: list[Words]) -> Batch:
        """Pairs as a batch."""
        source, target = zip(*some, strict=True)
        return batch_of(source, target)


def made(bias: str | None, seed: int) -> Any:
    """With the bias, and the first weights of the model without it."""

    def bahdanau(back: bool = False, **more: Any) -> Any:
        sizes = (FIRST + WORDS, FIRST + 3 * WORDS)[:: -1 if back else 1]
        names = dict(zip(("source_vocabulary", "target_vocabulary"), sizes, strict=True))
        return translator("bahdanau", seed, **names, width=32, dropout=0.2, **more)

    plain = bahdanau()
    if bias is None:
        return plain
    if bias == "trace":
        return TwoWay(plain, bahdanau(back=True), 1.0)
    model = bahdanau(bias=(bias,))
    model.load_state_dict(plain.state_dict(), strict=False)
    return model


@torch.inference_mode()
def perplexity(model: Any, data: Data) -> float:
    """Of the held-out pairs."""
    logits, wanted = read_real(model.eval(), data.held_out)
    return math.exp(F.cross_entropy(logits, wanted).item())


def fitted(bias: str | None, language: str, seed: int) -> tuple[Any, float]:
    """The model after training, and the least perplexity on the way."""
    data, model = Data(language, seed), made(bias, seed)
    settings = TRANSLATION.resolve({"data": {"corpus": "copy"}, "training": {"smoothing": 0.0}})
    best: list[float] = []
    steps = [0]

    def loss(model: Any, batch: Batch) -> Tensor:
        total, tokens = TRANSLATION.loss(settings, model, batch)
        if len(best) * EVERY < steps[0]:
            best.append(perplexity(getattr(model, "ahead", model), data))
            model.train()
        steps[0] += 1
        return total / tokens

    train(model, data.batches(seed), STEPS, 5e-3, loss=loss)
    return model, min(best)


@torch.inference_mode()
def looked(model: Any, batch: Batch) -> Tensor:
    """Weights (b, m, n) of target words on source words."""
    path = model.attention_paths["cross"][-1]
    with record(model.eval(), path) as seen:
        model(*inputs(batch))
    return between_words(concat_steps(seen[path]), batch)


@remembered
def plain(language: str, seed: int) -> tuple[Any, float]:
    """The model without any bias."""
    return fitted(None, language, seed)


def agreement(seed: int) -> Figures:
    """What a trace bonus does to two directions."""
    data = Data("monotone", seed)
    batch = data.held_out
    back = reversed_batch(batch)
    model, best = fitted("trace", "monotone", seed)
    ahead, without = plain("monotone", seed)
    alone = TwoWay(ahead, made("trace", seed).back, 1.0)
    train(alone.back, (reversed_batch(b) for b in data.batches(seed)), STEPS, 5e-3)
    both = [float(trace(looked(one.ahead, batch), looked(one.back, back)).mean()) for one in (model, alone)]
    shorter = torch.minimum(batch.lengths["source"], batch.lengths["target"] - 1).double().mean().item()
    return {
        "agreement, log perplexity": math.log(best / without),
        "agreement, trace with by without": both[0] / both[1],
        "agreement, trace by the shorter length": both[0] / shorter,
    }


def by_bias() -> list[Condition]:
    """3 % less perplexity where the property is, less than 1 % of change where it is not."""
    found = []
    for name in BIASES:
        found.append(at_most(math.log(0.97), f"{name}, language that has it", f"{name} helps"))
        found += between(
            -0.01, 0.01, f"{name}, language without it", f"{name} leaves the other alone", rule="mean"
        )
    return found


@entry(
    "C29",
    says="Biases for position, Markov order, fertility and agreement help where data are few.",
    source="002:134-195",
    experiment="500 pairs of toy languages that have the property and of one that has it not, "
    "bahdanau with and without the bias: change of the log of the least perplexity of 300 held-out "
    "pairs. Two directions with a trace bonus.",
    control="The language without the property.",
    conditions=[
        *by_bias(),
        at_least(1.2, "agreement, trace with by without", "directions agree more"),
        at_most(math.log(0.97), "agreement, log perplexity", "agreement helps"),
        must_fail(at_most(1 + 1e-6, "agreement, trace by the shorter length")),
    ],
    minutes=3.5,
    remark="Global fertility at γ = 1 is a loss larger than the one it should help.",
)
def biased(seed: int) -> Figures:
    """Changes of log perplexity, by bias."""
    found = {}
    for name, (bias, has, lacks) in BIASES.items():
        for what, language in (("language that has it", has), ("language without it", lacks)):
            found[f"{name}, {what}"] = math.log(fitted(bias, language, seed)[1] / plain(language, seed)[1])
    return found | agreement(seed)


@entry(
    "C30",
    says="With the position bias i/I ≈ j/J is learned.",
    source="002:160",
    experiment="Spearman of i/I and j/J, by the largest weight, after training with the position bias.",
    control="A language in reverse order, where it is the contrary.",
    conditions=[at_least(0.8, "monotone"), must_fail(at_most(-0.8, "reversed"))],
    minutes=1.0,
)
def diagonal(seed: int) -> Figures:
    """Spearman, by language."""
    found = {}
    for language in ("monotone", "reversed"):
        model, _ = fitted("position", language, seed)
        batch = Data(language, seed).held_out
        weights, where, there = looked(model, batch), [], []
        n, m = batch.lengths["source"], batch.lengths["target"] - 1
        for b in range(len(weights)):
            rows = weights[b, : m[b], : n[b]]
            where += (rows.argmax(-1) / n[b]).tolist()
            there += (torch.arange(int(m[b])) / m[b]).tolist()
        found[language] = float(spearmanr(where, there).statistic)
    return found
