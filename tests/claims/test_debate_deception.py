"""C72–C74: attention can be made to hide what is used, and how; C81: plausible is not faithful.

The models are those of `claims.debate`, trained with − log(1 − αᵀm), m the words of feeling.

C72  `attentive_bilstm`. Said to hold if accuracy falls by at most .02 and the mass on words of feeling is at
     most .02, while without these words (trained without them) accuracy is at most .55.
C73  The same with `attentive_mlp`, whose states are bounded and know one word: accuracy at most .60.
C74  The same without tanh, 400 steps before the penalty and 400 with it: accuracy at least .9, mass at most
     .05, and the states of words of feeling 5 times as long as others. Control: with the penalty from the
     beginning it is not learned (accuracy at most .75).
C81  A simulation: readers are told that words of feeling play no part, and the weights of C72 agree: at least
     .9 is on others. Without the top fifth of words by these weights the class's probability falls by at most
     .05. Control: by the weights of the plain model it falls by more.
"""

import pytest

from claims.debate import BILSTM, MLP, accuracy, case, case_of, deceiving_late, feeling, fitted, hidden, texts
from claims.debate import finding as found_by
from claims.experiment import held, over_seeds, report
from regard.audits.tests.deception import length_ratio, mass

pytestmark = pytest.mark.slow
DECEIVE = (("deceive", 1.0),)


def measured(made, seed):
    """Accuracy, mass on words of feeling, how much longer their states are."""
    words = feeling(texts(seed))
    return accuracy(made), float(mass(made, words).mean()), length_ratio(made, words)


def hiding(seed):
    plain, liar = (
        measured(made, seed) for made in (case(BILSTM, seed), case(BILSTM, seed, "plain", DECEIVE))
    )
    data = texts(seed)
    without = case_of(fitted(BILSTM, seed, "hidden"), seed, hidden(data, data.test.some(slice(300))))
    return {
        "accuracy": plain[0],
        "mass": plain[1],
        "accuracy deceiving": liar[0],
        "mass deceiving": liar[1],
        "accuracy without the words": accuracy(without),
        "length deceiving": liar[2],
    }


def test_c72_attention_can_be_manipulated_for_nothing():
    found = over_seeds(hiding)
    report("C72", found)
    assert held(found["accuracy deceiving"] - found["accuracy"], -0.02)
    assert held(-found["mass deceiving"], -0.02)
    assert held(-found["accuracy without the words"], -0.55)


def one_word_at_a_time(seed):
    right, left, long = measured(case(MLP, seed, "plain", DECEIVE), seed)
    return {"accuracy deceiving": right, "mass deceiving": left, "length deceiving": long}


def test_c73_without_context_or_norms_there_is_no_leak():
    found = over_seeds(one_word_at_a_time)
    report("C73", found)
    assert held(-found["accuracy deceiving"], -0.60)


def unbounded(seed):
    late = measured(case_of(deceiving_late(seed), seed), seed)
    scratch = measured(case(MLP, seed, "plain", DECEIVE, activation="none"), seed)
    return {
        "accuracy deceiving": late[0],
        "mass deceiving": late[1],
        "length deceiving": late[2],
        "accuracy from the beginning": scratch[0],
        "length from the beginning": scratch[2],
    }


def test_c74_long_vectors_are_a_leak():
    found = over_seeds(unbounded)
    report("C74", found)
    assert held(found["accuracy deceiving"], 0.9)
    assert held(-found["mass deceiving"], -0.05)
    assert held(found["length deceiving"], 5)
    assert held(-found["accuracy from the beginning"], -0.75)  # control


def pleasing(seed):
    return {
        "mass on others": 1 - measured(case(BILSTM, seed, "plain", DECEIVE), seed)[1],
        "comprehensiveness deceiving": found_by("comprehensiveness", BILSTM, seed, "plain", DECEIVE).value,
        "comprehensiveness": found_by("comprehensiveness", BILSTM, seed).value,
    }


def test_c81_weights_can_please_and_tell_nothing():
    found = over_seeds(pleasing)
    report("C81 (simulated)", found)
    assert held(found["mass on others"], 0.9)
    assert held(-found["comprehensiveness deceiving"], -0.05)
    assert held(found["comprehensiveness"] - found["comprehensiveness deceiving"], 1e-9)  # control
