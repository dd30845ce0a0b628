"""A corpus is encoded once, to disk, whole or not at all."""

import gzip
import json
import os
import resource
import subprocess
import sys
import warnings
from itertools import islice

import numpy as np
import pytest

from regard.data import CORPORA, DataError, Encoded, Tokenizer, pairs
from regard.data.encoded import BLOCK

PAIRS = [(p.source, p.target) for p in islice(CORPORA["phrases-de"](), 3000)]


@pytest.fixture(scope="module")
def tokenizers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train([a for a, _ in PAIRS], "word", 300), Tokenizer.train(
            [b for _, b in PAIRS], "bpe", 500
        )


def test_every_pair_is_there_in_order(tokenizers, tmp_path):
    encoded = Encoded.make(PAIRS, *tokenizers, tmp_path / "corpus")
    source, target = tokenizers
    assert len(encoded) == len(PAIRS)
    for i in (0, 1, 1234, len(PAIRS) - 1, -1):
        ours, theirs = encoded[i]
        assert (ours.tolist(), theirs.tolist()) == (source.encode(PAIRS[i][0]), target.encode(PAIRS[i][1]))
        assert target.decode(theirs) == PAIRS[i][1]
    lengths = [[len(a), len(b)] for a, b in encoded]
    assert encoded.lengths.dtype == np.int32
    assert encoded.lengths.tolist() == lengths
    with pytest.raises(IndexError, match="3,000 pairs; got index 3000"):
        encoded[3000]


def test_opening_it_again_gives_the_same(tokenizers, tmp_path):
    made = Encoded.make(PAIRS[:100], *tokenizers, tmp_path / "corpus")
    again = Encoded.open(tmp_path / "corpus")
    assert (again.fingerprint, again.left_out, len(again)) == (made.fingerprint, made.left_out, len(made))
    assert all(
        (x == y).all()
        for one, other in zip(made, again, strict=True)
        for x, y in zip(one, other, strict=True)
    )


def test_the_fingerprint_is_of_the_content(tokenizers, tmp_path):
    def of(pairs, name):
        return Encoded.make(pairs, *tokenizers, tmp_path / name).fingerprint

    first = of(PAIRS[:50], "a")
    assert first == of(iter(PAIRS[:50]), "b")
    assert len(first) == 64
    swapped = [PAIRS[1], PAIRS[0], *PAIRS[2:50]]
    moved = [(a + " " + b.split()[0], b) for a, b in PAIRS[:50]]
    assert len({first, of(swapped, "c"), of(PAIRS[:49], "d"), of(moved, "e")}) == 4


def test_what_is_empty_or_too_long_is_left_out_and_counted(tokenizers, tmp_path):
    some = [
        ("", "a"),
        ("one", " \t"),
        ("one", "eins"),
        ("one " * 9, "eins"),
        ("", "x" * 900),
        ("one", "eins " * 900),
    ]
    encoded = Encoded.make(some, *tokenizers, tmp_path / "corpus", longest=8)
    assert (len(encoded), encoded.left_out, encoded.empty, encoded.too_long) == (1, 5, 3, 2)
    assert Encoded.open(tmp_path / "corpus").left_out == 5
    with pytest.raises(
        DataError, match="no pair is left to learn from: 1 have an empty side, 1 more than longest=8"
    ):
        Encoded.make([("", "a"), ("one " * 9, "b")], *tokenizers, tmp_path / "other", longest=8)
    with pytest.raises(DataError, match="no pair is left"):
        Encoded.make([], *tokenizers, tmp_path / "other")
    with pytest.raises(ValueError, match="longest must be at least 1; got 0"):
        Encoded.make(PAIRS, *tokenizers, tmp_path / "other", longest=0)
    assert os.listdir(tmp_path) == ["corpus"]


def test_pairs_with_alignments_and_progress(tokenizers, tmp_path):
    seen = []
    stream = islice(CORPORA["phrases-de"](), BLOCK + 10)
    assert len(Encoded.make(stream, *tokenizers, tmp_path / "corpus", progress=seen.append)) == BLOCK + 10
    assert seen == [BLOCK, BLOCK + 10]


def test_a_large_vocabulary_needs_wider_ids(tmp_path):
    words = [f"w{i}" for i in range(70_000)]
    tokenizer = Tokenizer.train(words, "word", 70_004)
    encoded = Encoded.make([(word, word) for word in words[-5:]], tokenizer, tokenizer, tmp_path / "corpus")
    assert [tokenizer.decode(a) for a, _ in encoded] == words[-5:]
    assert max(encoded[i][0][0] for i in range(5)) >= 2**16


class TestNothingHalfWritten:
    """Whatever goes wrong, the folder is as it was."""

    @pytest.mark.parametrize(
        ("ours", "theirs", "said"),
        [
            ("a\n" * 9000, "b\n" * 8999, "9,000"),
            ("a\n" * 9000, "b\n" * 8999 + "\0", "line 9000: a NUL"),
            ("a\n" * 9000, "", "empty"),
            ("a\n" * 9000, "b\n" * 8998 + "c" * 100_000 + "\nb\n", "line 8999: more than"),
        ],
    )
    def test_bad_input(self, tokenizers, tmp_path, ours, theirs, said):
        (tmp_path / "a").write_text(ours)
        (tmp_path / "b").write_text(theirs)
        for _ in range(2):
            with pytest.raises(DataError, match=said):
                Encoded.make(pairs(tmp_path / "a", tmp_path / "b"), *tokenizers, tmp_path / "out" / "corpus")
            assert os.listdir(tmp_path / "out") == []

    def test_interruption_keeps_the_old_one(self, tokenizers, tmp_path):
        old = Encoded.make(PAIRS[:10], *tokenizers, tmp_path / "corpus").fingerprint

        def stop(read):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Encoded.make(PAIRS, *tokenizers, tmp_path / "corpus", progress=stop)
        assert os.listdir(tmp_path) == ["corpus"]
        assert Encoded.open(tmp_path / "corpus").fingerprint == old
        assert Encoded.make(PAIRS[:11], *tokenizers, tmp_path / "corpus").fingerprint != old

    def test_a_full_disk(self, tokenizers, tmp_path):
        def limited():
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
            yield from PAIRS

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            with pytest.raises(OSError, match="corpus"):
                Encoded.make(limited(), *tokenizers, tmp_path / "corpus")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert os.listdir(tmp_path) == []

    def test_a_folder_of_something_else_is_left_alone(self, tokenizers, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("precious")
        (tmp_path / "mine" / "about.json").write_text("{}")
        for place in ("mine", "mine/thesis.tex"):
            with pytest.raises(DataError, match="something else already"):
                Encoded.make(PAIRS, *tokenizers, tmp_path / place)
        assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"
        (tmp_path / "empty").mkdir()
        assert len(Encoded.make(PAIRS[:3], *tokenizers, tmp_path / "empty")) == 3


def test_damage_is_noticed(tokenizers, tmp_path):
    with pytest.raises(DataError, match="there is no encoded corpus"):
        Encoded.open(tmp_path / "corpus")
    for name in ("source.ids", "target.ids", "offsets", "about.json"):
        Encoded.make(PAIRS[:50], *tokenizers, tmp_path / "corpus")
        file = tmp_path / "corpus" / name
        file.write_bytes(file.read_bytes()[:-7])
        with pytest.raises(DataError, match="Make it again"):
            Encoded.open(tmp_path / "corpus")
        file.unlink()
        with pytest.raises(DataError, match="there is no encoded corpus|Make it again"):
            Encoded.open(tmp_path / "corpus")
        (tmp_path / "corpus" / "about.json").write_text(json.dumps({"sizes": {}}))
    with pytest.raises(DataError, match="Make it again"):
        Encoded.open(tmp_path / "corpus")


MEMORY = """
import resource, sys, warnings
from itertools import cycle, islice
from regard.data import Encoded, Tokenizer
words = ["the train leaves at half past three " + str(i) for i in range(1000)]
warnings.simplefilter("ignore")
tokenizer = Tokenizer.train(words, "bpe", 400)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
Encoded.make(zip(words * 20, words * 20), tokenizer, tokenizer, sys.argv[1])
before = peak()
encoded = Encoded.make(islice(zip(cycle(words), cycle(words)), 300_000), tokenizer, tokenizer, sys.argv[1])
assert len(encoded) == 300_000
print(peak() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "corpus")], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 30  # megabytes more for 300,000 pairs than for 20,000; their ids alone take 11


def test_what_is_read_from_gzip_is_what_was_written(tokenizers, tmp_path):
    for name, side in (("a.gz", 0), ("b.gz", 1)):
        (tmp_path / name).write_bytes(gzip.compress("\n".join(pair[side] for pair in PAIRS).encode()))
    read = Encoded.make(pairs(tmp_path / "a.gz", tmp_path / "b.gz"), *tokenizers, tmp_path / "one")
    assert read.fingerprint == Encoded.make(PAIRS, *tokenizers, tmp_path / "two").fingerprint
