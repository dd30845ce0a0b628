"""C29: structural biases help where there is little to learn from; C30: position knows that i/I ≈ j/J.

500 pairs of four languages, 20 words, 3 to 10 at a time, another word for each:

    monotone    in the same order
    sorted      in the order of the dictionary, whatever the sentence: neighbours in one are not in the other
    fertile     as monotone, but a word stands for 1, 2 or 3, always the same
    memoryless  as monotone, but a word is said until a coin falls on its other side: how often it has been
                said tells nothing about the next time
    reversed    (C30 alone) from last to first

`bahdanau` (width 32, additive score, dropout .2) learns each with and without one bias, from the same first
weights and with the same batches; what counts is the least perplexity of 300 held-out pairs along 400 steps.
Generator and thresholds were fixed before the seeds were run; they are those of the claim: with the bias the
perplexity falls by 3 % in the language that has the property, and moves by less than 1 % in one that has it
not. Of the trace bonus: the trace rises by 20 %, and the perplexity of monotone falls by 3 %. What came out
stands in FOUND, by which the tests go since; docs/claims.md has the figures.
"""

import math
from functools import cache
from itertools import islice
from random import Random

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch.nn import functional as F

from claims.experiment import FIRST, batch_of, held, inputs, over_seeds, read_real, report, train
from regard import record
from regard.attention import concat_steps
from regard.losses import trace
from regard.models import TRANSLATORS
from regard.models.both_directions import TwoWay
from regard.tasks.structural_losses import between_words
from regard.tasks.translation import TRANSLATION

WORDS, PAIRS, HELD_OUT, SIZE = 20, 500, 300, 50
STEPS, EVERY = 400, 25
HAS = {
    "position": "monotone",
    "markov:2": "monotone",
    "fertility:1": "fertile",
    "global-fertility": "fertile",
}
LACKS = {
    "position": "sorted",
    "markov:2": "sorted",
    "fertility:1": "memoryless",
    "global-fertility": "memoryless",
}

FOUND = {  # whether it helps the one, and whether it leaves the other alone
    "position": (True, False),
    "markov:2": (True, True),
    "fertility:1": (True, False),
    "global-fertility": (False, False),
}


def said(word, language, chance):
    """The words that stand for a word: numbers from 3 · word on, or the same one again and again."""
    if language == "fertile":
        return [3 * word + k for k in range(1 + word % 3)]
    if language == "memoryless":
        times = 1
        while chance.random() < 0.5:
            times += 1
        return [3 * word] * times
    return [3 * word]


def pairs(language, seed):
    """Pairs of ids without end."""
    chance = Random(f"{language} {seed}")
    while True:
        words = [chance.randrange(WORDS) for _ in range(chance.randint(3, 10))]
        order = {"sorted": sorted(words), "reversed": words[::-1]}.get(language, words)
        target = [t for word in order for t in said(word, language, chance)]
        yield torch.tensor(words) + FIRST, torch.tensor(target) + FIRST


class Data:
    """500 pairs to learn from, over and over, and 300 others."""

    def __init__(self, language, seed):
        stream = pairs(language, seed)
        self.train, self.held_out = list(islice(stream, PAIRS)), list(islice(stream, HELD_OUT))

    def batches(self, seed):
        chance = np.random.default_rng(seed)
        while True:
            order = chance.permutation(PAIRS)
            for part in np.array_split(order, PAIRS // SIZE):
                yield self.batch([self.train[k] for k in part])

    def batch(self, some):
        return batch_of(*(list(side) for side in zip(*some, strict=True)))


def made(bias, seed):
    torch.manual_seed(seed)
    plain = TRANSLATORS["bahdanau"].make(**sizes(), width=32, dropout=0.2)
    if bias is None:
        return plain
    if bias == "trace":
        return TwoWay(plain, TRANSLATORS["bahdanau"].make(**sizes(back=True), width=32, dropout=0.2), 1.0)
    model = TRANSLATORS["bahdanau"].make(**sizes(), width=32, dropout=0.2, bias=(bias,))
    model.load_state_dict(plain.state_dict(), strict=False)  # the same first weights
    return model


def sizes(back=False):
    both = FIRST + WORDS, FIRST + 3 * WORDS
    return dict(zip(("source_vocabulary", "target_vocabulary"), both[::-1] if back else both, strict=True))


@torch.inference_mode()
def perplexity(model, data):
    logits, wanted = read_real(model.eval(), data.batch(data.held_out))
    return math.exp(F.cross_entropy(logits, wanted).item())


def fitted(bias, language, seed, steps=STEPS):
    """The model after training, and the least perplexity on the way."""
    data, model = Data(language, seed), made(bias, seed)
    settings = TRANSLATION.resolve({"data": {"corpus": "copy"}, "training": {"smoothing": 0.0}})
    best = []

    def loss(model, batch):
        total, tokens = TRANSLATION.loss(settings, model, batch)
        if len(best) * EVERY < loss.step:
            best.append(perplexity(getattr(model, "ahead", model), data))
            model.train()
        loss.step += 1
        return total / tokens

    loss.step = 0
    train(model, data.batches(seed), steps, 5e-3, loss=loss)
    return model, min(best)


@torch.inference_mode()
def looked(model, batch):
    """Weights (b, m, n) of target words on source words."""
    with record(model.eval(), model.attention_paths["cross"][-1]) as seen:
        model(*inputs(batch))
    return between_words(concat_steps(seen[model.attention_paths["cross"][-1]]), batch)


@cache
def plain(language, seed):
    """The least perplexity without any bias."""
    return fitted(None, language, seed)[1]


def change(bias, language, seed):
    """log ppl with the bias minus log ppl without."""
    return math.log(fitted(bias, language, seed)[1] / plain(language, seed))


def test_languages_are_what_they_are_called():
    for source, target in islice(pairs("fertile", 0), 50):
        wanted = [3 * w + k for w in (source - FIRST).tolist() for k in range(1 + w % 3)]
        assert (target - FIRST).tolist() == wanted
    for source, target in islice(pairs("sorted", 0), 50):
        assert (target - FIRST).tolist() == [3 * w for w in sorted((source - FIRST).tolist())]
    times = [len(target) / len(source) for source, target in islice(pairs("memoryless", 0), 2000)]
    assert np.mean(times) == pytest.approx(2, abs=0.05)


def test_the_first_weights_are_the_same():
    plain, biased = made(None, 3), made("markov:2", 3)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, biased.state_dict()[name]), name
    assert len(biased.state_dict()) == len(plain.state_dict()) + 1


@pytest.mark.slow
@pytest.mark.parametrize("bias", HAS)
def test_c29_a_bias_helps_the_language_that_has_the_property(bias):
    found = over_seeds(
        lambda seed: {"has": change(bias, HAS[bias], seed), "lacks": change(bias, LACKS[bias], seed)}
    )
    report(f"C29 {bias}, log of perplexity", found)
    assert (held(-found["has"], -math.log(0.97)), abs(found["lacks"].mean()) < 0.01) == FOUND[bias]


@pytest.mark.slow
def test_c29_two_directions_come_to_agree():
    def measure(seed):
        data = Data("monotone", seed)
        batch = data.batch(data.held_out)
        back = batch.reversed()
        model, best = fitted("trace", "monotone", seed)
        ahead, without = fitted(None, "monotone", seed)
        torch.manual_seed(seed)
        alone = TwoWay(ahead, made("trace", seed).back, 1.0)
        train(alone.back, (b.reversed() for b in data.batches(seed)), STEPS, 5e-3)
        bonus = [
            trace(looked(both.ahead, batch), looked(both.back, back)).mean().item() for both in (model, alone)
        ]
        most = torch.minimum(batch.lengths["source"], batch.lengths["target"] - 1).double().mean().item()
        return {
            "perplexity": math.log(best / without),
            "trace with": bonus[0],
            "trace without": bonus[1],
            "most": most,
        }

    found = over_seeds(measure)
    report("C29 trace", found)
    assert (found["trace with"] <= found["most"] + 1e-6).all()
    assert (found["trace without"] >= 0).all()
    assert held(found["trace with"] / found["trace without"], 1.2)
    assert abs(found["perplexity"].mean()) < -math.log(0.97)  # they agree more and translate no better


@pytest.mark.slow
def test_c30_the_position_bias_finds_the_diagonal():
    def measure(seed):
        found = {}
        for language in ("monotone", "reversed"):
            model, _ = fitted("position", language, seed)
            data = Data(language, seed)
            batch = data.batch(data.held_out)
            weights = looked(model, batch)
            n, m = batch.lengths["source"], batch.lengths["target"] - 1
            where, there = [], []
            for b in range(len(weights)):
                rows = weights[b, : m[b], : n[b]]
                where += (rows.argmax(-1) / n[b]).tolist()
                there += (torch.arange(m[b]) / m[b]).tolist()
            found[language] = spearmanr(where, there).statistic
        return found

    found = over_seeds(measure)
    report("C30 Spearman of i/I and j/J", found)
    assert held(found["monotone"], 0.8)
    assert held(-found["reversed"], 0.8)
