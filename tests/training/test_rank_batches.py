"""The ranks of a team share every batch: each example once, and none that a rank does not need."""

import numpy as np
import pytest
import torch

from regard.data import Batches, Encoded
from regard.data.fields import number_field, token_field
from regard.training import Team
from regard.training.rank_batches import RankBatches


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    chance = np.random.default_rng(2)
    rows = [{"tokens": chance.integers(4, 9, chance.integers(1, 9)), "label": k} for k in range(101)]
    fields = {"tokens": token_field(9), "label": number_field()}
    return Encoded.make(rows, fields, tmp_path_factory.mktemp("ranks") / "corpus")


def plan(batches, epoch, skip=0):
    return [batch.indices.tolist() for batch in batches.epoch(epoch, skip)]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_ranks_have_every_example_of_every_batch_once(encoded, size):
    whole = plan(Batches(encoded, 40, seed=5), 1)
    parts = [list(RankBatches(encoded, 40, 5, Team(rank, size)).epoch(1)) for rank in range(size)]
    assert {len(each) for each in parts} == {len(whole)}
    for number, indices in enumerate(whole):
        for rank in range(size):
            batch = parts[rank][number]
            mine = indices[rank::size]
            assert batch.idle == (not mine)
            assert batch.indices.tolist() == (mine or indices[:1])
            assert batch["label"].tolist() == batch.indices.tolist()
            assert len(batch["tokens"]) == len(batch.lengths["tokens"]) == len(batch)


def test_a_rank_without_an_example_takes_part_with_an_idle_batch(encoded):
    some = RankBatches(encoded, 8, 0, Team(3, 4))  # mostly one or two examples in a batch
    idle = [batch for batch in some.epoch(0) if batch.idle]
    assert len(idle) > 10 and all(len(batch) == 1 for batch in idle)
    moved = idle[0].to("meta")
    assert moved.idle and moved["tokens"].device == torch.device("meta")


def test_every_rank_goes_on_where_it_stopped(encoded):
    for rank in range(3):
        some = RankBatches(encoded, 40, 1, Team(rank, 3))
        assert plan(some, 2, skip=4) == plan(some, 2)[4:]
        assert some.count(2) == len(plan(some, 2))


def test_what_other_ranks_take_is_not_read(encoded, monkeypatch):
    read, real = [], Batches.batch
    monkeypatch.setattr(
        Batches, "batch", lambda self, indices: read.append(len(indices)) or real(self, indices)
    )
    list(RankBatches(encoded, 40, 0, Team(1, 2)).epoch(0))
    assert sum(read) <= len(encoded) / 2 + 1


def test_a_batch_may_be_bounded_in_examples(encoded):
    """Short examples then come in many batches, each of which is a step, and not in a few large ones."""
    free, bound = (list(RankBatches(encoded, 40, 5, Team(), most).epoch(0)) for most in (0, 2))
    assert max(map(len, free)) > 2 >= max(map(len, bound))
    assert len(bound) > len(free) and sum(map(len, bound)) == sum(map(len, free)) == len(encoded)
