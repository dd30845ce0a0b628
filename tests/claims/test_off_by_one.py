"""C3, attention aligns words for free, and C5, with the state before the word it does so off by one.

`bahdanau` asks with the state before the word it is about to write, `luong` with the current one. Both learn
to reverse sentences of 3 to 12 words (C5), `luong` to translate them word by word (C3), and are shown no
links. Where they look is taken as it is, and as `regard.alignment.align` finds it, which is shown no links
either: shift and rule are chosen by agreement with an aligner trained on the 200 test pairs.
"""

from collections import Counter
from itertools import islice

import pytest
import torch

from claims.experiment import FIRST, Pairs, accuracy, held, over_seeds, report, train
from regard.alignment import Links, score
from regard.alignment.forced_alignment import align, forced
from regard.data.corpora import dictionary, reverse
from regard.data.segments import split_at_spaces
from regard.models import TRANSLATORS
from regard.tasks.translation import TRANSLATION, Tokenizers
from regard.tasks.translator import Translator

TEST = 200


class Words:
    """One side of Pairs as a tokenizer."""

    def __init__(self, ids):
        self.ids = ids

    def __len__(self):
        return FIRST + len(self.ids)

    def encode_spans(self, texts):
        return [([self.ids[word] for word in text.split()], split_at_spaces(text)) for text in texts]


def looks(name, pairs, seed, steps, width=64, rate=3e-3):
    """A model trained on pairs: how it writes, where it looks, and what `align` makes of that."""
    torch.manual_seed(seed)
    model = TRANSLATORS[name].make(**pairs.sizes, width=width, layers=1, dropout=0.0)
    train(model, pairs.train(seed), steps, rate)
    test = list(islice(pairs.stream(0, "test"), TEST))
    gold, text = [Links.of(pair.alignment) for pair in test], [(pair.source, pair.target) for pair in test]
    settings = TRANSLATION.resolve({"data": {"corpus": "copy"}})
    system = Translator(model, Tokenizers(*map(Words, pairs.ids)), settings)
    offsets, plain = Counter(), [Links.of([])] * TEST
    for k, found in forced(system, text):
        (weights,) = found.values()
        best = weights[:-1].argmax(-1).tolist()
        plain[k] = Links.of((i, j) for j, i in enumerate(best))
        offsets.update(best[j] - i for i, j in gold[k].sure)
    aligned = align(system, text)
    print(name, seed, aligned.remarks)
    return {
        "accuracy": accuracy(model, pairs.batch(test)),
        "in place": offsets[0] / offsets.total(),
        "one off": offsets[1] / offsets.total(),  # at the word after, which in a reversal was the last
        "AER": score(plain, gold).aer,
        "AER as aligned": score(aligned.links, gold).aer,
        "shifted": "shifted by +" in aligned.remarks[0],
    }


def baselines(pairs):
    """The error rate of links along the diagonal, and of one link by chance."""
    test = list(islice(pairs.stream(0, "test"), TEST))
    gold = [Links.of(pair.alignment) for pair in test]
    sizes = [len(pair.source.split()) for pair in test]
    diagonal = score([Links.of((k, k) for k in range(n)) for n in sizes], gold).aer
    return diagonal, 1 - len(sizes) / sum(sizes)


def test_c3_one_seed():
    """The same, smaller: 10 different words, at most 6 at a time, 200 steps."""
    pairs = Pairs(dictionary, longest=6, vocabulary=10)
    found = looks("luong", pairs, 0, 200, width=32, rate=1e-2)
    diagonal, chance = baselines(pairs)
    assert found["AER as aligned"] <= 0.15
    assert min(diagonal, chance) - found["AER as aligned"] >= 0.2


@pytest.mark.slow
def test_c3_attention_aligns_for_free():
    """The dictionary changes the order only locally, so that the diagonal is no bad guess."""
    pairs = Pairs(dictionary, longest=12)
    diagonal, chance = baselines(pairs)
    found = over_seeds(lambda seed: looks("luong", pairs, seed, 600))
    report(f"C3, diagonal {diagonal:.3f}, chance {chance:.3f}", found)
    assert held(-found["AER"], -0.15)
    assert held(-found["AER as aligned"], -0.15)
    assert held(chance - found["AER"], 0.5)
    assert held(diagonal - found["AER"], 0.2)


@pytest.mark.slow
def test_c5_the_state_before_the_word_looks_off_by_one_and_that_can_be_corrected():
    pairs = Pairs(reverse, longest=12)

    def measure(seed):
        found = {name: looks(name, pairs, seed, 1000) for name in ("bahdanau", "luong")}
        return {f"{name}, {what}": value for name, each in found.items() for what, value in each.items()}

    found = over_seeds(measure)
    report("C5", found)
    assert held(found["bahdanau, accuracy"], 0.95) and held(found["luong, accuracy"], 0.95)
    assert held(found["luong, in place"], 0.6)
    assert held(
        found["bahdanau, one off"], 0.3
    )  # the lectures' experiment had 0.94 and more: see docs/claims.md
    assert held(found["bahdanau, shifted"], 0.8)
    assert held(found["bahdanau, AER"] - found["bahdanau, AER as aligned"], 0.3)
    assert held(found["luong, AER as aligned"] - found["bahdanau, AER as aligned"], -0.03)
