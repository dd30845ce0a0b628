"""Contiguous streams: rows that go on from batch to batch, every token predicted once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Encoded, Streams
from regard.data.fields import token_field

COUNT = 103  # tokens; each is its place


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    cuts = [0, 1, 30, 31, 80, COUNT]
    rows = [{"tokens": list(range(a, b))} for a, b in zip(cuts, cuts[1:], strict=False)]
    return Encoded.make(rows, {"tokens": token_field(COUNT)}, tmp_path_factory.mktemp("stream") / "corpus")


def epochs(corpus, rows, segment, k, **settings):
    return [batch["tokens"] for batch in Streams(corpus, rows, segment, **settings).epoch(k)]


@given(rows=st.integers(1, 51), segment=st.integers(1, 110), k=st.integers(0, 3))
def test_every_token_is_predicted_exactly_once(corpus, rows, segment, k):
    batches = epochs(corpus, rows, segment, k)
    predicted = torch.cat([tokens[:, 1:].flatten() for tokens in batches]).sort().values.tolist()
    first = predicted[0]
    assert predicted == list(range(first, first + len(predicted)))
    assert 1 <= first <= segment and (k or first == 1)  # the first token follows nothing
    assert COUNT - 1 - predicted[-1] < rows  # what is left over at the end, less than one for each row
    assert all(tokens.shape[0] == rows and 2 <= tokens.shape[1] <= segment + 1 for tokens in batches)
    assert all(tokens.shape[1] == segment + 1 for tokens in batches[:-1])


@given(rows=st.integers(1, 20), segment=st.integers(1, 40), k=st.integers(0, 3))
def test_rows_go_on_from_batch_to_batch(corpus, rows, segment, k):
    batches = epochs(corpus, rows, segment, k)
    for one, other in zip(batches, batches[1:], strict=False):
        assert torch.equal(one[:, -1], other[:, 0])  # the last one of a segment is only predicted there
    whole = torch.cat([tokens[:, :-1] for tokens in batches], 1)
    assert torch.equal(whole, whole[:, :1] + torch.arange(whole.shape[1]))
    assert torch.equal(whole[1:, 0], whole[:-1, -1] + 1)  # and from row to row


@pytest.mark.parametrize("k", [0, 2])
def test_skip_goes_on_where_it_would_have_been(corpus, k):
    streams = Streams(corpus, 4, 6, seed=1)
    whole = list(streams.epoch(k))
    assert streams.count(k) == len(whole) > 3
    for skip in range(len(whole) + 2):
        rest = list(streams.epoch(k, skip=skip))
        assert len(rest) == len(whole[skip:])
        for one, other in zip(rest, whole[skip:], strict=True):
            assert torch.equal(one["tokens"], other["tokens"]) and torch.equal(one.indices, other.indices)
    for batch in whole:
        assert batch["tokens"].dtype == torch.int64 and not batch.idle and len(batch) == 4
        assert batch.lengths["tokens"].tolist() == [batch["tokens"].shape[1]] * 4
        assert batch["tokens"][:, 0].tolist() == batch.indices.tolist()


def test_epochs_begin_at_other_places_that_the_seed_decides(corpus):
    def starts(seed):
        return [int(epochs(corpus, 3, 10, k, seed=seed)[0][0, 0]) for k in range(12)]

    assert starts(0) == starts(0) != starts(1)
    assert starts(0)[0] == starts(1)[0] == 0
    assert len(set(starts(0))) > 4 and max(starts(0)) < 10


def test_what_is_too_short_is_refused(corpus, tmp_path):
    assert len(list(Streams(corpus, 51, 8).epoch(1))) == 1
    with pytest.raises(ValueError, match="52 rows need at least 104 tokens; the corpus has 103"):
        Streams(corpus, 52, 8)
    for rows, segment in ((0, 8), (2, 0)):
        with pytest.raises(
            ValueError, match=f"rows and segment must be at least 1; got {rows} and {segment}"
        ):
            Streams(corpus, rows, segment)


def test_any_field_can_be_the_stream(tmp_path):
    rows = [{"bytes": np.arange(5, dtype="u1"), "tokens": [9]}]
    encoded = Encoded.make(rows, {"bytes": token_field(9), "tokens": token_field(9)}, tmp_path / "corpus")
    (batch,) = Streams(encoded, 2, 8, field="bytes").epoch(0)
    assert batch["bytes"].tolist() == [[0, 1, 2], [2, 3, 4]] and list(batch.fields) == ["bytes"]
