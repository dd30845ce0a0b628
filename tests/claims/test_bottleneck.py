"""C1, one fixed vector is a bottleneck that attention removes, and C2, what that is worth beyond training.

`rnn` and `bahdanau` reverse sentences of 3 to 20 words, out of 20 different ones; the model without attention
is made wider, so that it has no fewer parameters. Accuracy is per token, given the right ones before:
mistakes do not add up.
"""

import numpy as np
import pytest
import torch

from claims.experiment import SEEDS, Pairs, accuracy, exact, held, over_seeds, report, train
from regard.data.corpora import reverse
from regard.models import TRANSLATORS

LENGTHS = [5, 10, 15, 20, 30, 40]
IN_TRAINING = 4  # of them
SIZES = {"bahdanau": 64, "rnn": 74}


def made(name, pairs, width, seed):
    torch.manual_seed(seed)
    return TRANSLATORS[name].make(**pairs.sizes, width=width, dropout=0.0)


def fitted(name, pairs, width, seed, steps, rate=3e-3):
    model = made(name, pairs, width, seed)
    train(model, pairs.train(seed), steps, rate)
    return model


@pytest.fixture(scope="module")
def pairs():
    return Pairs(reverse)


def test_c1_the_model_without_attention_has_no_fewer_parameters(pairs):
    attending, fixed = (made(name, pairs, width, 0).parameter_count() for name, width in SIZES.items())
    assert attending <= fixed <= 1.05 * attending


@pytest.mark.slow
def test_c1_one_seed():
    """The same, smaller: 10 different words, at most 8 at a time, 150 steps."""
    pairs = Pairs(reverse, longest=8, vocabulary=10)
    found = {}
    for name, width in {"bahdanau": 32, "rnn": 37}.items():
        model = fitted(name, pairs, width, 0, 150, rate=1e-2)
        found[name] = [accuracy(model, pairs.test(n)) for n in (3, 8)]
    assert found["bahdanau"][1] - found["rnn"][1] >= 0.2
    assert found["bahdanau"][0] - found["rnn"][0] <= found["bahdanau"][1] - found["rnn"][1] - 0.1


@pytest.fixture(scope="module")
def reversed_by(pairs):
    """Accuracy by length, (seeds, lengths) for each model, and the share of whole sentences of 20."""

    def measure(seed):
        found = {}
        for name, width in SIZES.items():
            model = fitted(name, pairs, width, seed, 1500)
            found[name] = [accuracy(model, pairs.test(n)) for n in LENGTHS]
            found[f"{name}, all 20 words"] = exact(model, pairs.test(20))
        return found

    found = over_seeds(measure, SEEDS)
    report(f"C1, C2 at {LENGTHS}", found)
    return found


@pytest.mark.slow
def test_c1_the_longer_the_sentence_the_more_a_fixed_vector_loses(reversed_by):
    attending, fixed = reversed_by["bahdanau"], reversed_by["rnn"]
    gap = attending - fixed  # (seeds, lengths)
    assert held(gap[:, LENGTHS.index(20)], 0.2)
    assert held(-gap[:, LENGTHS.index(5)], -0.05)
    slopes = np.polyfit(LENGTHS[:IN_TRAINING], attending[:, :IN_TRAINING].T, 1)[0]
    assert held(slopes, -0.005)
    assert held(-np.polyfit(LENGTHS[:IN_TRAINING], fixed[:, :IN_TRAINING].T, 1)[0], 0.005)


@pytest.mark.slow
def test_c2_beyond_the_lengths_of_training_both_lose(reversed_by):
    """Attention is ahead at 30 words and loses too: by itself it does not give lengths never seen."""
    attending, fixed = reversed_by["bahdanau"], reversed_by["rnn"]
    in_range, beyond = LENGTHS.index(20), LENGTHS.index(30)
    assert held(attending[:, beyond] - fixed[:, beyond], 0.1)
    assert held(fixed[:, in_range] - fixed[:, beyond], 0.05)
    assert held(attending[:, in_range] - attending[:, -1], 0.05)


@pytest.mark.slow
def test_c1_control_a_larger_vector_narrows_the_gap(pairs, reversed_by):
    """Of width 256, with 12 times as many parameters: one seed."""
    wide = accuracy(fitted("rnn", pairs, 256, 0, 1500, rate=1e-3), pairs.test(20))
    print(f"C1 control, rnn of width 256 at 20 words: {wide:.3f}")
    assert wide - reversed_by["rnn"][0, LENGTHS.index(20)] >= 0.1
