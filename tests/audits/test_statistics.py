"""Every statistic of an audit on models whose answer can be worked out by hand.

Tokens are numbers. The model answers z = Σ_j w_j x_j with the logits (10 z, −10 z, 1): class 0, class 1, or,
if z is near 0, class 2.
"""

import math
from dataclasses import replace

import pytest
import torch

from regard.audits import AUDITS, Case, NotApplicable
from regard.audits.tests.contradiction import contradiction  # enters it into AUDITS

N, TEXTS = 20, 30
CHANGES_WEIGHTS = [
    "adversary",
    "consistency",
    "contradiction",
    "erasure",
    "joint_erasure",
    "permutation",
    "removal",
    "uniform",
]


def said(z):
    return torch.stack([10 * z, -10 * z, torch.ones_like(z)], -1).softmax(-1)


def numbers(texts):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(text).double() for text in texts], batch_first=True)


def one_hot(texts):
    """All weight on the number furthest from 0."""
    x = numbers(texts)
    return torch.zeros_like(x).scatter(-1, x.abs().argmax(-1, keepdim=True), 1.0)


def even(texts):
    return torch.stack([torch.ones(len(text)) / len(text) for text in texts])


def reads(texts, weights):
    return said((weights * numbers(texts)).sum(-1))


def case_of(attention, texts, intervene=reads):
    """A model that answers by its weights, or not."""

    def predict(given):
        rows = [torch.as_tensor(attention([text])) for text in given]
        return torch.cat([intervene([text], row) for text, row in zip(given, rows, strict=True)])

    return Case.from_functions(predict, attention, texts, intervene=intervene)


def one_word(texts=TEXTS, n=N):
    """Texts with one number that is not 0: 1 or −1, one kind as often as the other."""
    found = torch.zeros(texts, n)
    found[torch.arange(texts), torch.arange(texts) % n] = torch.tensor([1.0, -1.0]).repeat(texts // 2)
    return found.tolist()


P = {z: said(torch.tensor(z, dtype=torch.float64)).tolist() for z in (0.0, 1.0)}
MOVED = sum(abs(a - b) for a, b in zip(P[0.0], P[1.0], strict=True)) / 2  # TVD of "nothing" and class 0


@pytest.fixture(scope="module")
def selects():
    """One-hot weights on the one word that decides."""
    return case_of(one_hot, one_word())


@pytest.mark.parametrize(
    ("test", "value", "baseline"),
    [
        ("adversary", 0.0, 1.0),  # weights of JSD > ½ leave at most a twelfth on the word
        ("consistency", 1.0, 1.0),
        ("contradiction", 0.0, 1.0),
        ("erasure", 1.0, 0.0),
        ("joint_erasure", 1.0, 0.0),
        ("permutation", MOVED, None),
        ("removal", 1 / N, None),
        ("uniform", 1.0, 0.5),
        ("comprehensiveness", P[1.0][0] - P[0.0][0], None),
        ("sufficiency", 0.0, None),
        ("leave_one_out_correlation", 1.0, 0.0),
    ],
)
def test_one_hot_weights_on_the_word_that_decides(selects, test, value, baseline):
    found = AUDITS[test](selects)
    assert found.value == pytest.approx(value, abs=1e-9)
    assert baseline is None or found.baseline == pytest.approx(baseline, abs=1e-9)
    assert found.inputs == TEXTS
    assert found.interval == pytest.approx(
        (value, value), abs=1e-9
    )  # every text is the same but for its sign


@pytest.fixture(scope="module")
def ignores():
    """The class comes from the sum of the numbers, whatever the weights are; these lie elsewhere."""

    def elsewhere(texts):
        return one_hot(texts).roll(1, -1)

    def deaf(texts, weights):
        return said(numbers(texts).sum(-1))

    return case_of(elsewhere, one_word(), deaf)


@pytest.mark.parametrize(
    ("test", "value"),
    [
        ("adversary", 1.0),
        ("consistency", 1.0),
        ("contradiction", 1.0),
        ("erasure", 0.0),
        ("joint_erasure", 0.0),
        ("permutation", 0.0),
        ("removal", 1.0),
        ("uniform", 0.0),
    ],
)
def test_a_model_that_ignores_its_weights(ignores, test, value):
    found = AUDITS[test](ignores)
    assert found.value == pytest.approx(value, abs=1e-9)


def test_ignored_weights_that_lie_elsewhere_do_not_agree_with_leaving_out(ignores):
    # Both orders single out one word, not the same: of the pairs with these two words they differ in one, and
    # one order or the other is undecided in the rest. τ_b = −1/(n − 1).
    assert AUDITS["leave_one_out_correlation"](ignores).value == pytest.approx(-1 / (N - 1))
    assert AUDITS["comprehensiveness"](ignores).baseline >= 0


@pytest.fixture(scope="module")
def equal():
    """A linear model with the same weight for all words."""
    return case_of(even, (torch.tensor(one_word()) * N).tolist())


@pytest.mark.parametrize(
    ("test", "value"),
    [("consistency", 1.0), ("permutation", 0.0), ("uniform", 0.0), ("contradiction", 0.0)],
)
def test_all_equal_weights(equal, test, value):
    assert AUDITS[test](equal).value == pytest.approx(value, abs=1e-9)


def test_all_equal_weights_have_no_order(equal):
    with pytest.raises(NotApplicable, match="same: no order"):
        AUDITS["leave_one_out_correlation"](equal)


def test_linear_models_are_removed_in_the_order_of_their_words():
    # Weights n, n − 1, …, 1 on numbers of one sign: the class stays as long as one is left.
    def falling(texts):
        rows = [torch.arange(len(text), 0, -1.0) for text in texts]
        return torch.stack([row / row.sum() for row in rows])

    texts = [[sign] * 6 for sign in (1.0, -1.0)] * 5
    found = AUDITS["removal"](case_of(falling, texts))
    assert found.value == found.baseline == 1.0  # it never flips
    # One word against five: −1 has weight 6/21, each 1 less; z = (15 − 6)/21. Without the first z only grows.
    texts = [[-sign] + [sign] * 5 for sign in (1.0, -1.0)] * 5
    case = case_of(falling, texts)
    assert AUDITS["removal"](case).value == 1.0
    assert AUDITS["erasure"](case).value == 0.0


def test_erasure_counts_the_two_by_two_table(selects):
    details = AUDITS["erasure"](selects).details
    assert [details[name] for name in ("neither", "random only", "top only", "both")] == [0, 0, 1, 0]
    assert details["larger change by top"] == 1.0


def test_where_two_words_say_the_same_the_decision_flips_without_both():
    """Weights .6 and .3 on two words of one sign, .1 on the rest: the second takes over from the first."""

    def two(texts):
        x = numbers(texts)
        return torch.where(x == 0, 0.1 / (N - 2), torch.where(x.abs() == 1, 0.6, 0.3))

    words = torch.tensor([1.0, 0.9] + [0.0] * (N - 2))
    texts = [(sign * words.roll(i)).tolist() for i, sign in enumerate([1.0, -1.0] * 5)]
    case = case_of(two, texts)
    assert AUDITS["erasure"](case).value == 0.0
    found = AUDITS["joint_erasure"](case)
    assert (found.value, found.baseline) == (1.0, 0.0)
    assert found.details == {"words": [1, 2, 3], "top": [0.0, 1.0, 1.0], "random": [0.0, 0.0, 0.0]}
    short = case_of(two, [(sign * words[:3]).tolist() for sign in (1.0, -1.0)] * 5)
    assert AUDITS["joint_erasure"](short).value == 0.0  # at most half of a text is erased: one of three


def test_the_median_change_of_an_even_number_of_texts():
    """Half of them move by MOVED at most shuffles, the others, marked by 7, never: the median is between."""

    def last(texts):
        return torch.stack([torch.eye(len(text))[-1] for text in texts]).double()

    def answers(texts, weights):
        x = numbers(texts)
        return said(torch.where(x[:, 0] == 7, x[:, -1], (weights * x).sum(-1)))

    texts = [[first, 0.0, 0.0, 0.0, 0.0, sign] for first in (0.0, 7.0) for sign in (1.0, -1.0)] * 5
    found = AUDITS["permutation"](case_of(last, texts, answers), shuffles=30)
    assert found.value == pytest.approx(MOVED / 2)


def test_the_adversary_finds_the_furthest_weights_there_are():
    # Two words say the same: all weight goes from one to the other, and nothing is said otherwise.
    def first(texts):
        return torch.stack([torch.eye(len(text))[0] for text in texts]).double()

    texts = [[sign, sign, 0.0, 0.0] for sign in (1.0, -1.0)] * 5
    case = case_of(first, texts)
    found = AUDITS["adversary"](case)
    assert found.value == 1.0
    assert found.details["mean JSD"] == pytest.approx(math.log(2), abs=1e-6)
    pair = found.details["pair"]
    assert pair["weights"] == [1.0, 0.0, 0.0, 0.0] and pair["other"] == pytest.approx([0, 1, 0, 0], abs=1e-3)
    assert pair["predicted"]["other"] == pytest.approx(pair["predicted"]["weights"], abs=0.05)
    assert contradiction(case).value == 0.0  # it is another good reason, and misleads nobody


def test_contradiction_leaves_out_words_that_hold_the_weight_already():
    def last(texts):
        return torch.stack([torch.eye(len(text))[-1] for text in texts]).double()

    def deaf(texts, weights):
        return said(numbers(texts).sum(-1))

    texts = [[sign, 0.0] for sign in (1.0, -1.0)] * 5  # the other word says the same as the text
    with pytest.raises(NotApplicable, match="another class"):
        contradiction(case_of(last, texts, deaf))


def with_states(case, states):
    return replace(case, states=lambda texts, rows: (states.expand(len(texts), -1, -1),) * 2)


def test_conicity_of_equal_and_of_orthogonal_states(selects):
    assert AUDITS["conicity"](with_states(selects, torch.ones(1, N, 3))).value == pytest.approx(1.0)
    assert AUDITS["conicity"](with_states(selects, torch.eye(N)[None])).value == pytest.approx(N**-0.5)
    pointing = torch.tensor([1.0, -1.0]).repeat(N // 2).view(1, N, 1)
    assert AUDITS["conicity"](with_states(selects, pointing)).value == pytest.approx(0.0, abs=1e-6)


def test_gradients_that_order_words_as_attention_does(selects):
    same = replace(selects, gradients=lambda texts, rows: one_hot(texts))
    assert AUDITS["gradient_correlation"](same).value == pytest.approx(1.0)
    assert AUDITS["gradient_correlation"](same).baseline == pytest.approx(1.0)
    other = replace(selects, gradients=lambda texts, rows: 1 - one_hot(texts))
    assert AUDITS["gradient_correlation"](other).value == pytest.approx(-1.0)


def test_consistency_sees_weights_that_are_not_the_models():
    texts = one_word()

    def predict(given):
        return reads(given, one_hot(given))

    case = Case.from_functions(predict, lambda given: one_hot(given).roll(1, -1), texts, intervene=reads)
    assert AUDITS["consistency"](case).value == 0.0
    # Half the weight is enough for the class, and not for the answer.
    case = Case.from_functions(predict, lambda given: 0.5 * one_hot(given), texts, intervene=reads)
    assert AUDITS["consistency"](case).value == 0.0
    assert AUDITS["consistency"](case).details["decision stays"] == 1.0


@pytest.mark.parametrize("test", CHANGES_WEIGHTS)
def test_without_intervene_weights_cannot_be_changed(test):
    case = Case.from_functions(lambda texts: reads(texts, one_hot(texts)), one_hot, one_word())
    with pytest.raises(NotApplicable, match="intervene"):
        AUDITS[test](case)


@pytest.mark.parametrize("test", ["consistency", "contradiction", "erasure", "removal", "uniform"])
def test_one_class_has_no_decisions_to_change(test):
    with pytest.raises(NotApplicable, match="same class"):
        AUDITS[test](case_of(one_hot, one_word()[::2]))


@pytest.mark.parametrize("test", ["adversary", "contradiction", "comprehensiveness", "erasure"])
def test_texts_of_one_word_leave_nothing_to_compare(test):
    with pytest.raises(NotApplicable, match="two tokens"):
        AUDITS[test](case_of(one_hot, [[1.0], [-1.0], [0.0]]))
