"""Rows of different lengths in one tensor, and those of similar length together."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.tokens import PAD
from regard.data.padding import batches_by_length, padded


@given(st.lists(st.lists(st.integers(4, 99), max_size=6), max_size=5))
def test_padded_rows_are_the_rows(rows):
    tokens, lengths = padded(rows)
    assert tokens.dtype == lengths.dtype == torch.int64
    assert tokens.shape == (len(rows), max(map(len, rows), default=0))
    assert lengths.tolist() == [len(row) for row in rows]
    for found, row in zip(tokens.tolist(), rows, strict=True):
        assert found == row + [PAD] * (tokens.shape[1] - len(row))


def test_padded_rows_are_on_the_device():
    assert {one.device.type for one in padded([[4], [5, 6]], "meta")} == {"meta"}


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 80))
def test_everything_that_is_not_empty_once_the_shortest_first(lengths, positions):
    batches = list(batches_by_length(lengths, positions))
    order = [i for some in batches for i in some]
    assert sorted(order) == [i for i, n in enumerate(lengths) if n]
    assert [lengths[i] for i in order] == sorted(n for n in lengths if n)
    for some in batches:  # what is too long for any batch is alone in one
        assert len(some) == 1 or len(some) * max(lengths[i] for i in some) <= positions
    for one, other in pairwise(batches):  # no batch is smaller than it must be
        assert (len(one) + 1) * lengths[other[0]] > positions


def test_no_row_of_a_batch_is_stretched_further_than_allowed():
    lengths = [8, 3, 0, 10, 4, 40, 9]
    found = list(batches_by_length(lengths, positions=1000, stretch=1.25))
    assert found == [[1], [4], [0, 6, 3], [5]]
    assert list(batches_by_length(lengths, positions=1000)) == [[1, 4, 0, 6, 3, 5]]
