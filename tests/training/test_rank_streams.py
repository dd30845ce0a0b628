"""Rows of streams for each rank: in order where a state is carried, shuffled segments where none is."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import torch

from regard.training import Team
from regard.training.rank_streams import RankStreams

TEXT = SimpleNamespace(values={"tokens": np.arange(1003).astype("<u2")})


def batches(k, skip=0, team=None, **more):
    streams = RankStreams(TEXT, 4, 16, 5, team or Team(), **more)
    return [batch["tokens"] for batch in streams.epoch(k, skip)]


def test_shuffled_segments_are_whole_come_once_and_in_another_order_each_epoch():
    for k in (0, 1):
        rows = torch.cat(batches(k, shuffled=True))
        assert bool((rows.diff() == 1).all()) and rows.shape[1] == 17
        firsts = rows[:, 0].tolist()
        assert len(set(firsts)) == len(firsts) == 60 and sorted(firsts) != firsts
        torch.testing.assert_close(torch.cat(batches(k, 3, shuffled=True)), rows[12:])
    assert not torch.equal(batches(0, shuffled=True)[0], batches(1, shuffled=True)[0])


def test_ranks_share_the_rows_of_every_batch():
    for shuffled in (False, True):
        whole = batches(1, shuffled=shuffled)
        parts = [batches(1, team=Team(rank, 2), shuffled=shuffled) for rank in (0, 1)]
        for both, one, other in zip(whole, *parts, strict=True):
            assert torch.equal(both[0::2], one) and torch.equal(both[1::2], other)


def test_rows_in_order_go_on_and_a_short_end_is_left_out():
    found = batches(0)
    for one, after in pairwise(found):
        assert torch.equal(one[:, -1], after[:, 0])  # the last token of a segment begins the next
    assert found[-1].shape[1] - 1 >= 8


def test_what_is_carried_is_given_back():
    streams = RankStreams(TEXT, 4, 16)
    first, second = list(streams.epoch(0))[:2]
    first.carrier.state = {"h": torch.ones(1)}
    assert first.state is None and second.state is not None
    other = RankStreams(TEXT, 4, 16)
    other.carry(streams.carried())
    assert next(other.epoch(0, 1)).state == streams.carried()
