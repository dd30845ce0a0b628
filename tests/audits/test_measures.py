"""Distances, rank correlation and intervals, against their definitions and scipy."""

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from regard.audits.measures import bootstrap, jsd, kendall, median, tvd

small = st.integers(0, 4)  # so few values that there are ties
pairs = st.lists(st.tuples(small, small), min_size=2, max_size=9)


def distributions(n=4):
    return (
        st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any).map(lambda c: [x / sum(c) for x in c])
    )


@given(pairs)
def test_kendall_is_scipys_with_ties(pairs):
    x, y = (torch.tensor(values, dtype=torch.float64) for values in zip(*pairs, strict=True))
    ours = float(kendall(x[None], y[None], torch.tensor([len(pairs)])))
    theirs = kendalltau(x, y).statistic
    assert ours == pytest.approx(theirs, nan_ok=True, abs=1e-12)


@given(st.lists(pairs, min_size=1, max_size=4))
def test_kendall_does_not_see_padding(texts):
    rows = [torch.tensor(text, dtype=torch.float64) for text in texts]
    x, y = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=9.0).unbind(-1)
    together = kendall(x, y, torch.tensor([len(row) for row in rows]))
    for row, found in zip(rows, together, strict=True):
        alone = kendall(row[None, :, 0], row[None, :, 1], torch.tensor([len(row)]))
        torch.testing.assert_close(found, alone[0], equal_nan=True)


def test_kendall_is_undefined_where_nothing_differs():
    x, y = torch.ones(1, 4), torch.arange(4.0)[None]
    assert math.isnan(float(kendall(x, y, torch.tensor([4]))))
    assert math.isnan(float(kendall(y, y, torch.tensor([1]))))


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


@given(distributions(), distributions())
def test_jsd_is_the_entropy_of_the_middle_less_the_mean_entropy(p, q):
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    wanted = entropy(middle) - (entropy(p) + entropy(q)) / 2
    found = float(jsd(torch.tensor(p).double(), torch.tensor(q).double()))
    assert found == pytest.approx(wanted, abs=1e-6)
    assert -1e-9 <= found <= math.log(2) + 1e-6


@given(distributions(), distributions())
def test_tvd_is_the_largest_difference_of_any_event(p, q):
    wanted = max(
        sum(a - b for i, (a, b) in enumerate(zip(p, q, strict=True)) if event >> i & 1)
        for event in range(2 ** len(p))
    )
    assert float(tvd(torch.tensor(p), torch.tensor(q))) == pytest.approx(wanted, abs=1e-6)


def test_jsd_of_disjoint_distributions_is_ln_2_and_has_a_gradient_at_zeros():
    p, q = torch.tensor([1.0, 0.0], requires_grad=True), torch.tensor([0.0, 1.0])
    found = jsd(p, q)
    found.backward()
    assert float(found.detach()) == pytest.approx(math.log(2))
    assert p.grad is not None and bool(p.grad.isfinite().all())


def test_the_bootstrap_covers_the_mean_about_as_often_as_it_says():
    values = torch.rand(200, 50, generator=torch.Generator().manual_seed(0)) < 0.3
    intervals = [bootstrap(row, seed=i) for i, row in enumerate(values)]
    covered = sum(low <= 0.3 <= high for low, high in intervals) / len(intervals)
    assert 0.88 <= covered <= 1.0  # 95 % for many inputs; fewer for 50


def test_the_bootstrap_of_equal_values_is_a_point_and_is_repeated_by_its_seed():
    assert bootstrap(torch.full((7,), 0.25)) == (0.25, 0.25)
    values = torch.rand(30)
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3) != bootstrap(values, seed=4)


def test_the_bootstrap_takes_other_statistics():
    values = torch.tensor([0.0] * 9 + [100.0])
    assert bootstrap(values, lambda drawn: drawn.median(-1).values) == (0.0, 0.0)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two(values):
    rows = torch.tensor([values, values[::-1]]).double()
    assert median(rows).tolist() == [statistics.median(values)] * 2
    assert median(rows.mT, 0).tolist() == median(rows).tolist()
