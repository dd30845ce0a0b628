"""Spans: the most likely one and the one of the highest expected F1, against all spans tried."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.spans import best_spans, span_scores

scores = st.integers(1, 7).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(-4, 4), min_size=n, max_size=n) for _ in "se"])
)


def every_span(start, end, longest):
    n = len(start)
    return {(s, e): start[s] + end[e] for s in range(n) for e in range(s, min(s + longest, n))}


def f1(a, b):
    same = len(set(range(a[0], a[1] + 1)) & set(range(b[0], b[1] + 1)))
    return 2 * same / (a[1] - a[0] + 1 + b[1] - b[0] + 1)


@given(scores, st.integers(1, 9))
def test_the_chosen_span_is_the_best_of_all(both, longest):
    tensors = [torch.tensor([one], dtype=torch.double) for one in both]
    spans = every_span(*both, longest)
    total = sum(map(math.exp, spans.values()))
    (first, last), log_prob = (one[0].tolist() for one in best_spans(*tensors, longest))
    assert spans[first, last] == pytest.approx(max(spans.values()))
    assert log_prob == pytest.approx(spans[first, last] - math.log(total))
    (first, last), log_prob = (one[0].tolist() for one in best_spans(*tensors, longest, "f1"))
    expected = {a: sum(math.exp(p) / total * f1(a, b) for b, p in spans.items()) for a in spans}
    assert expected[first, last] == pytest.approx(max(expected.values()))
    assert log_prob == pytest.approx(spans[first, last] - math.log(total))


@given(scores, st.integers(1, 9))
def test_what_is_known_of_each_word_is_a_second_estimate_of_f1(both, longest):
    start, end = (torch.tensor([one], dtype=torch.double) for one in both)
    inside = start - end
    spans = every_span(*both, longest)
    total, p = sum(map(math.exp, spans.values())), inside.sigmoid()[0].tolist()
    (first, last) = best_spans(start, end, longest, "f1", inside)[0][0].tolist()
    expected = {
        a: sum(math.exp(x) / total * f1(a, b) for b, x in spans.items())
        + 2 * sum(p[a[0] : a[1] + 1]) / (a[1] - a[0] + 1 + sum(p))
        for a in spans
    }
    assert expected[first, last] == pytest.approx(max(expected.values()))
    assert best_spans(start, end, longest, "likely", inside)[0].equal(best_spans(start, end, longest)[0])


def test_a_span_never_ends_before_it_starts_nor_in_padding():
    start, end = torch.full((2, 5), -math.inf), torch.full((2, 5), -math.inf)
    start[:, :3], end[:, :3] = torch.tensor([0.0, 0.0, 9.0]), torch.tensor([9.0, 0.0, 0.0])
    for choose, inside in (("likely", None), ("f1", None), ("f1", torch.full((2, 5), 9.0))):
        spans, _ = best_spans(start, end, 4, choose, inside)
        assert bool((spans[:, 0] <= spans[:, 1]).all()) and int(spans.max()) < 3
    assert span_scores(start, end, 2).shape == (2, 5, 2)


def test_where_the_model_is_unsure_expected_f1_takes_what_spans_share():
    start = torch.tensor([[0.4, 0.31, 0.29, 0.0]]).log()
    end = torch.tensor([[0.4, 0.0, 0.0, 0.6]]).log()
    assert best_spans(start, end, 4)[0].tolist() == [[0, 3]]
    assert best_spans(start, end, 1)[0].tolist() == [[0, 0]]
