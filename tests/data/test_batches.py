"""Batches of similar length: every pair once, little padding, the same order for the same seed."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from data.rows import encode_pairs, tokenizer_of
from regard.core.tokens import BOS, EOS, PAD
from regard.data import CORPORA, Batches, Encoded, batches, pairs
from regard.data.batches import cut
from regard.data.fields import Field, number_field, token_field
from regard.tasks.translation import target_in

MULTI30K = next((p for up in Path(__file__).parents if (p := up / "shared/data/multi30k").is_dir()), None)


def encoded_of(pairs, folder, kind="bpe", size=800):
    tokenizer = tokenizer_of([text for pair in pairs for text in pair[:2]], kind, size)
    return encode_pairs(pairs, tokenizer, tokenizer, folder)


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
        assert {tensor.dtype for tensor in (*batch.fields.values(), *batch.lengths.values())} == {torch.int64}
        for name in ("source", "target"):
            assert batch[name].shape == (len(batch), int(batch.lengths[name].max()))
            for row, i in enumerate(batch.indices.tolist()):
                ids = few[i][name].tolist()
                assert batch[name][row].tolist() == ids + [PAD] * (batch[name].shape[1] - len(ids))
                assert batch.lengths[name][row] == len(ids)
        read = target_in(batch["target"])
        for row, i in enumerate(batch.indices.tolist()):
            *words, end = few[i]["target"].tolist()
            assert end == EOS
            assert read[row].tolist() == [BOS, *words] + [PAD] * (read.shape[1] - len(words) - 1)


@pytest.mark.parametrize(("tokens", "examples"), [(4096, None), (4096, 16), (200, None), (50, 3), (25, 1)])
def test_every_pair_once_within_the_budget(few, tokens, examples):
    plan = list(Batches(few, tokens, examples=examples).epoch(3))
    assert sorted(i for batch in plan for i in batch.indices.tolist()) == list(range(len(few)))
    for batch in plan:
        assert max(batch["source"].numel(), batch["target"].numel()) <= tokens
        assert len(batch) <= (examples or len(batch))


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
    lengths = [batch["source"].shape[1] for batch in Batches(phrases, 1024).epoch(0)]
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
    real = Batches.batch
    monkeypatch.setattr(
        Batches, "batch", lambda self, indices: read.append(len(indices)) or real(self, indices)
    )
    assert len(list(some.epoch(0, skip=some.count(0) - 2))) == len(read) == 2


def test_padding_is_what_it_says(few):
    some, real, positions = Batches(few, 300), 0, 0
    for batch in some.epoch(0):
        real += sum(int(lengths.sum()) for lengths in batch.lengths.values())
        positions += sum(field.numel() for field in batch.fields.values())
    assert some.padding(0) == pytest.approx(1 - real / positions)


@pytest.mark.parametrize("tokens", [1024, 4096])
def test_little_padding_on_phrases(phrases, tokens):
    assert Batches(phrases, tokens).padding(0) <= 0.05
    assert Batches(phrases, tokens, examples=64).padding(0) <= 0.05
    least = phrases.lengths.max(1).sum() / tokens
    assert Batches(phrases, tokens).count(0) <= 1.5 * least  # and not by making small batches


@pytest.mark.skipif(MULTI30K is None, reason="needs shared/data/multi30k")
def test_little_padding_on_multi30k(tmp_path):
    text = list(islice(pairs(MULTI30K / "train.en.gz", MULTI30K / "train.de.gz"), 10_000))
    some = Batches(encoded_of(text, tmp_path / "corpus", size=8000))
    assert max(some.padding(k) for k in range(3)) <= 0.05
    assert some.count(0) <= 1.4 * some.encoded.lengths.max(1).sum() / some.tokens


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60),
    tokens=st.integers(30, 200),
    examples=st.none() | st.integers(1, 5),
)
def test_cutting_parts_everything_and_no_part_is_too_large(lengths, tokens, examples):
    lengths = np.array(lengths)
    parts = [part.tolist() for part in cut(lengths, tokens, examples)]
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    assert all(len(part) * lengths[part].max() <= tokens for part in parts)
    assert all(part and len(part) <= (examples or len(part)) for part in parts)


def test_equal_lengths_need_no_padding_and_make_full_batches():
    parts = list(cut(np.full((1000, 2), 10), tokens=1000))
    assert sorted(map(len, parts)) == [100] * 10


def test_bad_settings_are_named(few):
    longest = int(few.lengths.max())
    with pytest.raises(ValueError, match=f"tokens must be at least {longest}, .*; got {longest - 1}"):
        Batches(few, tokens=longest - 1)
    with pytest.raises(ValueError, match="examples must be at least 1; got 0"):
        Batches(few, examples=0)


def test_to_a_device(few):
    batch = next(iter(Batches(few).epoch(0)))
    moved = batch.to("meta")
    tensors = [*moved.fields.values(), *moved.lengths.values(), moved.indices]
    assert len(tensors) == 5 and {tensor.device.type for tensor in tensors} == {"meta"}
    assert torch.equal(batch.to("cpu")["source"], batch["source"])


TOKENS, NUMBER, IMAGE = token_field(50), number_field(), Field("|u1", (1, 2, 3))
FIELDS = {
    "images": {"image": IMAGE, "label": NUMBER},
    "one": {"tokens": TOKENS, "label": NUMBER},
    "two": {"tokens": TOKENS, "second": TOKENS, "label": NUMBER},
    "three": {"tokens": TOKENS, "second": TOKENS, "boxes": Field("<f4", (None, 4)), "image": IMAGE},
}


def example(fields, chance):
    """An example with random values; sequences of 1 to 9."""
    row = {}
    for name, field in fields.items():
        shape = [int(chance.integers(1, 10)) if size is None else size for size in field.shape]
        row[name] = chance.integers(0, 50, shape).astype(field.dtype)
    return row


@pytest.fixture(params=list(FIELDS))
def any_fields(request, tmp_path):
    fields, chance = FIELDS[request.param], np.random.default_rng(0)
    rows = [example(fields, chance) for _ in range(60)]
    return rows, Encoded.make(rows, fields, tmp_path / "corpus")


def test_batches_of_any_fields_hold_every_example_once(any_fields):
    rows, encoded = any_fields
    seen = []
    for batch in Batches(encoded, tokens=20, seed=3).epoch(1):
        seen += batch.indices.tolist()
        assert list(batch.fields) == list(rows[0]) and list(batch.lengths) == list(encoded.ragged)
        assert max([len(batch), *(len(batch) * batch[name].shape[1] for name in encoded.ragged)]) <= 20
        for name, field in encoded.fields.items():
            whole = batch[name].numpy()
            assert whole.dtype == (np.int64 if name in ("tokens", "second") else np.dtype(field.dtype))
            for row, i in enumerate(batch.indices.tolist()):
                wanted = rows[i][name]
                if field.ragged:
                    assert batch.lengths[name][row] == len(wanted)
                    assert (whole[row, len(wanted) :] == PAD).all()
                    assert whole.shape[1] == int(batch.lengths[name].max())
                    assert (whole[row, : len(wanted)] == wanted).all()
                else:
                    assert whole[row].shape == wanted.shape and (whole[row] == wanted).all()
    assert sorted(seen) == list(range(60))


def test_examples_without_sequences_count_one_position_each(tmp_path):
    encoded = Encoded.make([{"label": i} for i in range(60)], {"label": number_field()}, tmp_path / "corpus")
    some = Batches(encoded, tokens=20)
    assert sorted(len(batch) for batch in some.epoch(0)) == [20, 20, 20] and some.padding(0) == 0
    assert max(map(len, Batches(encoded, tokens=20, examples=7).epoch(0))) <= 7
    assert flat(some.epoch(0)) != flat(some.epoch(1))


@given(
    lengths=st.lists(st.lists(st.integers(1, 30), min_size=3, max_size=3), min_size=1, max_size=40),
    tokens=st.integers(30, 200),
)
def test_cutting_goes_by_the_longest_of_any_number_of_fields(lengths, tokens):
    for some in (np.array(lengths), np.array(lengths)[:, :1]):
        parts = [part.tolist() for part in cut(some, tokens)]
        assert sorted(i for part in parts for i in part) == list(range(len(some)))
        assert all(len(part) * some[part].max() <= tokens for part in parts)
