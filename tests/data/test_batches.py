"""Batches of similar length: every pair once, little padding, the same order for the same seed."""

import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.tokens import BOS, EOS, PAD
from regard.data import CORPORA, Batches, Encoded, Tokenizer, batches, pairs
from regard.data.batches import MARKS, cut

MULTI30K = next((p for up in Path(__file__).parents if (p := up / "shared/data/multi30k").is_dir()), None)


def encoded_of(pairs, folder, kind="bpe", size=800):
    texts = [text for pair in pairs for text in pair[:2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = Tokenizer.train(texts, kind, size)
    return Encoded.make(pairs, tokenizer, tokenizer, folder)


@pytest.fixture(scope="module")
def phrases(tmp_path_factory):
    return encoded_of(
        list(islice(CORPORA["phrases-de"](), 10_000)), tmp_path_factory.mktemp("data") / "phrases"
    )


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return encoded_of(
        list(islice(CORPORA["copy"](), 700)), tmp_path_factory.mktemp("data") / "few", "word", 100
    )


def flat(stream):
    return [batch.indices.tolist() for batch in stream]


def test_a_batch_holds_the_pairs_it_names(few):
    for batch in Batches(few, tokens=300).epoch(0):
        assert batch.source.dtype == batch.target_in.dtype == batch.source_lengths.dtype == torch.int64
        assert batch.source.shape == (len(batch), int(batch.source_lengths.max()))
        assert (
            batch.target_in.shape == batch.target_out.shape == (len(batch), int(batch.target_lengths.max()))
        )
        assert batch.tokens == int((batch.target_out != PAD).sum()) == int(batch.target_lengths.sum())
        for row, i in enumerate(batch.indices.tolist()):
            source, target = (ids.tolist() for ids in few[i])
            n, m = batch.source.shape[1] - len(source), batch.target_in.shape[1] - len(target) - 1
            assert batch.source[row].tolist() == source + [PAD] * n
            assert batch.target_in[row].tolist() == [BOS, *target] + [PAD] * m
            assert batch.target_out[row].tolist() == [*target, EOS] + [PAD] * m
            assert (batch.source_lengths[row], batch.target_lengths[row]) == (len(source), len(target) + 1)


@pytest.mark.parametrize(("tokens", "sentences"), [(4096, None), (4096, 16), (200, None), (50, 3), (25, 1)])
def test_every_pair_once_within_the_budget(few, tokens, sentences):
    plan = list(Batches(few, tokens, sentences=sentences).epoch(3))
    assert sorted(i for batch in plan for i in batch.indices.tolist()) == list(range(len(few)))
    for batch in plan:
        assert max(batch.source.numel(), batch.target_in.numel()) <= tokens
        assert len(batch) <= (sentences or len(batch))


def test_the_order_is_the_seeds_and_the_epochs(few):
    def order(seed, k):
        return flat(Batches(few, 300, seed=seed).epoch(k))

    assert order(1, 0) == order(1, 0)
    others = [order(1, 0), order(1, 1), order(2, 0), order(0, 1)]
    assert len({str(each) for each in others}) == 4
    assert (
        len({str(sorted(map(sorted, each))) for each in others}) == 4
    )  # other batches, not the same reordered


def test_lengths_come_in_no_order(phrases):
    lengths = [batch.source.shape[1] for batch in Batches(phrases, 1024).epoch(0)]
    steps = np.sign(np.diff(lengths))
    assert abs(np.corrcoef(np.arange(len(lengths)), lengths)[0, 1]) < 0.3
    assert (steps > 0).sum() > 10 < (steps < 0).sum()


@pytest.mark.parametrize("pool", [100, 2**17])
def test_skip_is_the_tail_of_the_whole_epoch(few, monkeypatch, pool):
    monkeypatch.setattr(batches, "POOL", pool)
    some = Batches(few, 300, seed=5)
    whole = flat(some.epoch(2))
    assert some.count(2) == len(whole) > 20
    for skip in (0, 1, 7, len(whole) - 1, len(whole), len(whole) + 5):
        assert flat(some.epoch(2, skip=skip)) == whole[skip:]
    assert sorted(i for each in whole for i in each) == list(range(len(few)))


def test_what_is_skipped_is_not_read(few, monkeypatch):
    some, read = Batches(few, 300), []
    real = Batches._batch
    monkeypatch.setattr(
        Batches, "_batch", lambda self, indices: read.append(len(indices)) or real(self, indices)
    )
    assert len(list(some.epoch(0, skip=some.count(0) - 2))) == len(read) == 2


def test_padding_is_what_it_says(few):
    some, real, positions = Batches(few, 300), 0, 0
    for batch in some.epoch(0):
        real += int(batch.source_lengths.sum()) + batch.tokens
        positions += batch.source.numel() + batch.target_in.numel()
    assert some.padding(0) == pytest.approx(1 - real / positions)


@pytest.mark.parametrize("tokens", [1024, 4096])
def test_little_padding_on_phrases(phrases, tokens):
    assert Batches(phrases, tokens).padding(0) <= 0.05
    assert Batches(phrases, tokens, sentences=64).padding(0) <= 0.05
    least = (phrases.lengths + MARKS).max(1).sum() / tokens
    assert Batches(phrases, tokens).count(0) <= 1.5 * least  # and not by making small batches


@pytest.mark.skipif(MULTI30K is None, reason="needs shared/data/multi30k")
def test_little_padding_on_multi30k(tmp_path):
    text = list(islice(pairs(MULTI30K / "train.en.gz", MULTI30K / "train.de.gz"), 10_000))
    some = Batches(encoded_of(text, tmp_path / "corpus", size=8000))
    assert max(some.padding(k) for k in range(3)) <= 0.05
    assert some.count(0) <= 1.4 * (some.encoded.lengths + MARKS).max(1).sum() / some.tokens


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60),
    tokens=st.integers(30, 200),
    sentences=st.none() | st.integers(1, 5),
)
def test_cutting_parts_everything_and_no_part_is_too_large(lengths, tokens, sentences):
    lengths = np.array(lengths)
    parts = [part.tolist() for part in cut(lengths, tokens, sentences)]
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    assert all(len(part) * lengths[part].max() <= tokens for part in parts)
    assert all(part and len(part) <= (sentences or len(part)) for part in parts)


def test_equal_lengths_need_no_padding_and_make_full_batches():
    parts = list(cut(np.full((1000, 2), 10), tokens=1000))
    assert sorted(map(len, parts)) == [100] * 10


def test_bad_settings_are_named(few):
    longest = int((few.lengths + MARKS).max())
    with pytest.raises(ValueError, match=f"tokens must be at least {longest}, .*; got {longest - 1}"):
        Batches(few, tokens=longest - 1)
    with pytest.raises(ValueError, match="sentences must be at least 1; got 0"):
        Batches(few, sentences=0)


def test_to_a_device(few):
    batch = next(iter(Batches(few).epoch(0)))
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in vars(moved).values()} == {"meta"}
    assert torch.equal(batch.to("cpu").source, batch.source)
