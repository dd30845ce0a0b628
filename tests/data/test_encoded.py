"""A corpus is encoded once, to disk, whole or not at all."""

import gzip
import json
import os
import resource
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from data.rows import encode_pairs, tokenizer_of
from regard.core.tokens import EOS
from regard.data import CORPORA, DataError, Encoded, Tokenizer, pairs
from regard.data.encoded import BLOCK

PAIRS = [(p.source, p.target) for p in islice(CORPORA["phrases-de"](), 3000)]


@pytest.fixture(scope="module")
def tokenizers():
    return tokenizer_of([a for a, _ in PAIRS], "word", 300), tokenizer_of([b for _, b in PAIRS], "bpe", 500)


def test_every_pair_is_there_in_order(tokenizers, tmp_path):
    encoded = encode_pairs(PAIRS, *tokenizers, tmp_path / "corpus")
    source, target = tokenizers
    assert len(encoded) == len(PAIRS)
    for i in (0, 1, 1234, len(PAIRS) - 1, -1):
        ours, theirs = (encoded[i][side].tolist() for side in ("source", "target"))
        assert (ours, theirs) == (source.encode(PAIRS[i][0]), [*target.encode(PAIRS[i][1]), EOS])
        assert target.decode(theirs) == PAIRS[i][1]
    lengths = [[len(row["source"]), len(row["target"])] for row in encoded]
    assert encoded.lengths.dtype == np.int32
    assert encoded.lengths.tolist() == lengths
    with pytest.raises(IndexError, match="3,000 examples; got index 3000"):
        encoded[3000]


def test_opening_it_again_gives_the_same(tokenizers, tmp_path):
    made = encode_pairs(PAIRS[:100], *tokenizers, tmp_path / "corpus")
    again = Encoded.open(tmp_path / "corpus")
    assert (again.fingerprint, len(again)) == (made.fingerprint, len(made))
    assert (again.empty, again.too_long) == (made.empty, made.too_long)
    assert again.fields == made.fields
    assert all(
        list(one) == list(other) == ["source", "target"]
        and all((one[name] == other[name]).all() for name in one)
        for one, other in zip(made, again, strict=True)
    )


def test_the_fingerprint_is_of_the_content(tokenizers, tmp_path):
    def of(pairs, name):
        return encode_pairs(pairs, *tokenizers, tmp_path / name).fingerprint

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
    encoded = encode_pairs(some, *tokenizers, tmp_path / "corpus", longest=8)
    assert (len(encoded), encoded.empty, encoded.too_long) == (1, 3, 2)
    again = Encoded.open(tmp_path / "corpus")
    assert (again.empty, again.too_long) == (3, 2)
    said = "no example is left to learn from: 1 are empty, 1 are longer than allowed"
    with pytest.raises(DataError, match=rf"{said} \(8 for source, 9 for target\)"):
        encode_pairs([("", "a"), ("one " * 9, "b")], *tokenizers, tmp_path / "other", longest=8)
    with pytest.raises(DataError, match="no example is left to learn from: 0 are empty, none is too long"):
        encode_pairs([], *tokenizers, tmp_path / "other")
    with pytest.raises(ValueError, match="longest must be at least 1; got 0 for source"):
        encode_pairs(PAIRS, *tokenizers, tmp_path / "other", longest=0)
    assert os.listdir(tmp_path) == ["corpus"]


def test_pairs_with_alignments_and_progress(tokenizers, tmp_path):
    seen = []
    stream = islice(CORPORA["phrases-de"](), BLOCK + 10)
    assert len(encode_pairs(stream, *tokenizers, tmp_path / "corpus", progress=seen.append)) == BLOCK + 10
    assert seen == [BLOCK, BLOCK + 10]


def test_a_large_vocabulary_needs_wider_ids(tmp_path):
    words = [f"w{i}" for i in range(70_000)]
    tokenizer = Tokenizer.train(words, "word", 70_004)
    encoded = encode_pairs([(word, word) for word in words[-5:]], tokenizer, tokenizer, tmp_path / "corpus")
    assert [tokenizer.decode(row["source"]) for row in encoded] == words[-5:]
    assert max(int(row["source"][0]) for row in encoded) >= 2**16
    assert [encoded.fields[name].dtype for name in ("source", "target")] == ["<u4", "<u4"]


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
                encode_pairs(pairs(tmp_path / "a", tmp_path / "b"), *tokenizers, tmp_path / "out" / "corpus")
            assert os.listdir(tmp_path / "out") == []

    def test_interruption_keeps_the_old_one(self, tokenizers, tmp_path):
        old = encode_pairs(PAIRS[:10], *tokenizers, tmp_path / "corpus").fingerprint

        def stop(read):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            encode_pairs(PAIRS, *tokenizers, tmp_path / "corpus", progress=stop)
        assert os.listdir(tmp_path) == ["corpus"]
        assert Encoded.open(tmp_path / "corpus").fingerprint == old
        assert encode_pairs(PAIRS[:11], *tokenizers, tmp_path / "corpus").fingerprint != old

    def test_a_full_disk(self, tokenizers, tmp_path):
        def limited():
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
            yield from PAIRS

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            with pytest.raises(OSError, match="corpus"):
                encode_pairs(limited(), *tokenizers, tmp_path / "corpus")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert os.listdir(tmp_path) == []

    def test_a_folder_of_something_else_is_left_alone(self, tokenizers, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("precious")
        (tmp_path / "mine" / "about.json").write_text("{}")
        for place in ("mine", "mine/thesis.tex"):
            with pytest.raises(DataError, match="something else already"):
                encode_pairs(PAIRS, *tokenizers, tmp_path / place)
        assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"
        (tmp_path / "empty").mkdir()
        assert len(encode_pairs(PAIRS[:3], *tokenizers, tmp_path / "empty")) == 3


def test_damage_is_noticed(tokenizers, tmp_path):
    with pytest.raises(DataError, match="there is no encoded corpus"):
        Encoded.open(tmp_path / "corpus")
    for name in ("source.bin", "target.bin", "offsets", "about.json"):
        encode_pairs(PAIRS[:50], *tokenizers, tmp_path / "corpus")
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
import resource, sys
from itertools import cycle, islice
from data.rows import encode_pairs, tokenizer_of
words = ["the train leaves at half past three " + str(i) for i in range(1000)]
tokenizer = tokenizer_of(words, "bpe", 400)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
encode_pairs(zip(words * 20, words * 20), tokenizer, tokenizer, sys.argv[1])
before = peak()
encoded = encode_pairs(islice(zip(cycle(words), cycle(words)), 300_000), tokenizer, tokenizer, sys.argv[1])
assert len(encoded) == 300_000
print(peak() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "corpus")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
    )
    assert int(run.stdout) < 30  # megabytes more for 300,000 pairs than for 20,000; their ids alone take 11


def test_what_is_read_from_gzip_is_what_was_written(tokenizers, tmp_path):
    for name, side in (("a.gz", 0), ("b.gz", 1)):
        (tmp_path / name).write_bytes(gzip.compress("\n".join(pair[side] for pair in PAIRS).encode()))
    read = encode_pairs(pairs(tmp_path / "a.gz", tmp_path / "b.gz"), *tokenizers, tmp_path / "one")
    assert read.fingerprint == encode_pairs(PAIRS, *tokenizers, tmp_path / "two").fingerprint
