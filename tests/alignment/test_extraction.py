"""From weights to links, shifts, and what is chosen without links."""

from itertools import permutations
from math import ceil, floor

import numpy as np
import pytest

from regard.alignment.choose import Head, HeadView, Rule, choose_rule, choose_view, choose_views, rules
from regard.alignment.extraction import above, argmax, matching, mutual
from regard.alignment.links import Links
from regard.alignment.pair_weights import PairWeights
from regard.alignment.shift import NO_SHIFT, SHIFTS, Shift
from regard.core.errors import SettingsError

W = np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]])  # two target words look at three source words


def test_each_method_by_hand():
    assert argmax(W) == {(0, 0), (0, 1)}
    assert argmax(W, 0.55) == {(0, 0)}
    assert above(W, 0.25) == {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert mutual(W) == {(0, 0)}
    assert matching(W) == {(0, 0), (1, 1)}
    assert matching(W, 0.5) == {(0, 0)}
    for method in (argmax, above, mutual, matching):
        assert method(np.zeros((2, 0)), 0.0) == set()
        assert method(np.zeros((2, 3)), 0.0) == set()  # looking nowhere


@pytest.mark.parametrize("seed", range(10))
def test_the_matching_is_the_best_of_all(seed):
    weights = np.random.default_rng(seed).random((3, 4))
    best = max(permutations(range(4), 3), key=lambda order: sum(weights[j, i] for j, i in enumerate(order)))
    assert matching(weights) == {(i, j) for j, i in enumerate(best)}


def test_a_shift_is_undone():
    right = np.eye(4)
    late = np.vstack([np.zeros((1, 4)), right])  # row j + 1, the end included, has what row j should
    assert (Shift(rows=1).correct(late) == right).all()
    early = np.vstack([right[1:], np.zeros((2, 4))])
    assert argmax(Shift(rows=-1).correct(early)) == {(1, 1), (2, 2), (3, 3)}
    moved = np.vstack([np.eye(4, k=1), np.zeros((1, 4))])
    assert argmax(Shift(columns=1).correct(moved)) == {(0, 0), (1, 1), (2, 2)}
    both = (late + np.vstack([right, np.zeros((1, 4))])) / 2  # each row looks for its word and the one before
    assert argmax(Shift(rows=0.5).correct(both)) == {(k, k) for k in range(4)}
    assert (NO_SHIFT.correct(late) == late[:-1]).all()
    assert str(Shift(1, 0)) == "shifted by +1 target word, corrected" and str(NO_SHIFT) == "no shift"
    assert str(Shift(0, -1)) == "shifted by -1 source word, corrected"


@pytest.mark.parametrize("shift", [*SHIFTS, Shift(0, 0.5)])
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (6, 3)])
def test_a_shift_by_its_definition(shift, shape):
    weights = np.random.default_rng(0).random(shape)

    def at(j, i):
        """Between places what lies between them, outside nothing."""
        if j % 1:
            return (at(j - 0.5, i) + at(j + 0.5, i)) / 2
        if i % 1:
            return (at(j, i - 0.5) + at(j, i + 0.5)) / 2
        return weights[int(j), int(i)] if 0 <= j < shape[0] and 0 <= i < shape[1] else 0

    found = shift.correct(weights)
    assert found.shape == (shape[0] - 1, shape[1])
    for j, i in np.ndindex(found.shape):
        assert found[j, i] == pytest.approx(at(j + shift.rows, i + shift.columns))


def late(links, n, shift):
    """Weights (n + 1, n) of a head that has these links (row, column), but shifted."""
    weights = np.full((n + 1, n), 0.02)
    for j, i in links:
        for row in {floor(j + shift.rows), ceil(j + shift.rows)}:
            for column in {floor(i + shift.columns), ceil(i + shift.columns)}:
                if 0 <= row <= n and 0 <= column < n:
                    weights[row, column] = 0.8
    return weights


def sentences(chance, shift, back, count=30):
    """Weights of a head that is right but shifted, and of one that looks anywhere; of the other direction
    alone; and the true links."""
    forward, reverse, gold = [], [], []
    for _ in range(count):
        n = int(chance.integers(4, 9))
        order = [(j, int(i)) for j, i in enumerate(chance.permutation(n))]  # target word j for source word i
        forward.append({Head(0, 0): chance.random((n + 1, n)), Head(0, 1): late(order, n, shift)})
        reverse.append({Head(1): late([(i, j) for j, i in order], n, back)})
        gold.append(Links.of((i, j) for j, i in order))
    return forward, reverse, gold


def spoilt(gold, chance, share=0.3):
    """Links of which a share is elsewhere, as an aligner's may be."""
    return [
        Links.of(
            (int(chance.integers(len(one.sure))) if chance.random() < share else i, j) for i, j in one.sure
        )
        for one in gold
    ]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("back", SHIFTS)
def test_head_and_shift_are_found_without_links(shift, back):
    chance = np.random.default_rng(0)
    forward, reverse, gold = sentences(chance, shift, back)
    one, other = HeadView(Head(0, 1), shift), HeadView(Head(1), back)
    assert choose_views(forward, reverse, spoilt(gold, chance)) == (one, other)
    assert choose_view(forward, spoilt(gold, chance)) == one


def test_the_rule_is_chosen_by_agreement_or_on_gold():
    one = np.array([[0.45, 0.35, 0.2], [0.1, 0.1, 0.8]])  # target word 0 stands for source words 0 and 1
    looked = [PairWeights(one, np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]))] * 3
    gold = [Links.of([(0, 0), (1, 0), (2, 1)])] * 3
    by_agreement = choose_rule(looked, third=gold)
    assert by_agreement.method == "threshold" and 0.2 <= by_agreement.threshold < 0.35
    assert by_agreement.links(looked[0]) == gold[0]
    assert choose_rule(looked).both(looked[0]) == (gold[0].sure, gold[0].sure)
    assert choose_rule(looked, gold=gold).links(looked[0]) == gold[0]
    assert choose_rule([PairWeights(one)], third=gold[:1]).links(PairWeights(one)) == gold[0]
    fixed = choose_rule(looked, gold=gold, fixed={"method": "argmax", "symmetrise": "intersection"})
    assert fixed == Rule("argmax", 0.0, "intersection")


def test_what_is_fixed_is_not_chosen():
    every = list(rules({"threshold": 0.33}, symmetrise=True))
    assert {rule.threshold for rule in every} == {0.33}
    assert {rule.method for rule in every} == {"argmax", "threshold", "mutual", "matching"}
    assert len({rule.symmetrise for rule in every}) == 4


def test_symmetrisation_too_is_chosen_without_links():
    """One direction sees half of the links, the other the other half: their union is what the third says."""
    looked = [PairWeights(np.array([[1.0, 0], [0, 0]]), np.array([[0, 0], [0, 1.0]]))]
    rule = choose_rule(looked, third=[Links.of([(0, 0), (1, 1)])])
    assert rule.links(looked[0]) == Links.of([(0, 0), (1, 1)])
    assert choose_rule(looked, third=[Links.of([])]).symmetrise == "intersection"


def test_a_rule_says_what_is_wrong_with_it():
    with pytest.raises(
        SettingsError, match="method must be one of argmax, threshold, mutual, matching; got 'x'"
    ):
        Rule(method="x")
    with pytest.raises(SettingsError, match="symmetrise must be one of intersection"):
        Rule(symmetrise="x")
    with pytest.raises(SettingsError, match="threshold must be from 0 to less than 1; got 1"):
        Rule(threshold=1)
