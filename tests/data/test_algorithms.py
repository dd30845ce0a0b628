"""Generated sequences: what each algorithm asks for, by another route."""

import numpy as np
import pytest

from regard.data.corpora import ALGORITHMS
from regard.data.text import DataError

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


def said(algorithm, text):
    posed = algorithm.posed(text)
    return algorithm.written(posed.targets[posed.scored])


@every_algorithm
def test_what_is_drawn_can_be_posed(name):
    algorithm, chance = ALGORITHMS[name](4), np.random.default_rng(0)
    for length in (*range(1, 5), algorithm.lengths[1]):
        text = algorithm.draw(chance, length)
        posed = algorithm.posed(text)
        t = len(posed.inputs)
        assert posed.inputs.shape == (t, algorithm.inputs) and posed.targets.shape == (t, algorithm.outputs)
        assert posed.scored.shape == (t,) and len(posed.steps) == len(text.split())
        assert bool((posed.targets[~posed.scored] == 0).all()) or name == "ngrams"


@every_algorithm
def test_the_same_seed_draws_the_same(name):
    algorithm = ALGORITHMS[name](4)
    one, other = (algorithm.draw(np.random.default_rng(3), 6) for _ in range(2))
    assert one == other


def test_what_is_asked_for():
    assert said(ALGORITHMS["copy"](3), "010 111 001") == "010 111 001"
    assert said(ALGORITHMS["repeat_copy"](2), "01 11 x2") == "01 11 01 11 00"
    assert ALGORITHMS["repeat_copy"](2).posed("01 11 x2").targets[-1].tolist() == [0, 0, 1]
    assert said(ALGORITHMS["recall"](2), "01 11 00 | 10 10 10 | 11 11 11 ? 10 10 10") == "11 11 11"
    sort = ALGORITHMS["priority_sort"](2)
    assert said(sort, "00@0.1 01@-0.5 10@0.9 11@0.2 00@-1") == "10 11 00 01"


def test_the_next_bit_of_an_ngram_is_the_next_bit():
    algorithm, chance = ALGORITHMS["ngrams"](1), np.random.default_rng(1)
    bits = algorithm.draw(chance, 40).split()
    posed = algorithm.posed(" ".join(bits))
    assert [str(int(bit)) for bit in posed.targets[posed.scored][:, 0]] == bits[5:]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("copy", "01"), ("copy", "0x1"), ("repeat_copy", "010 111"), ("repeat_copy", "010 x0"),
        ("recall", "010 111 | 000 000 000 ? 000 000 000"), ("recall", "010 111 000"),
        ("priority_sort", "010"), ("priority_sort", "010@3"), ("priority_sort", "010@x"), ("ngrams", "2"),
    ],
)  # fmt: skip
def test_what_is_none_is_named(name, text):
    with pytest.raises(DataError, match=r"got|numbers"):
        ALGORITHMS[name](3).posed(text)
