"""Tasks of long sequences: labels are right, splits do not overlap, files are read or refused."""

import gzip
from pathlib import Path
from random import Random

import numpy as np
import pytest

from regard.data.long_range import LONG_TASKS
from regard.data.long_range.listops import WORDS, depth_of, expression, read, value_of
from regard.data.long_range.long_task import FIRST, LongBatches
from regard.data.long_range.pathfinder import DOT, SIDE
from regard.data.text_lines import DataError

SHARED = Path(__file__).parents[3] / "shared" / "data" / "listops"


def by_definition(words):
    """The value by recursion over nested tuples."""

    def parsed(at):
        if words[at].isdigit():
            return int(words[at]), at + 1
        operator, arguments, at = words[at], [], at + 1
        while words[at] != "]":
            value, at = parsed(at)
            arguments.append(value)
        found = {
            "[MIN": min(arguments),
            "[MAX": max(arguments),
            "[MED": int(np.median(arguments)),
            "[SM": sum(arguments) % 10,
            "[FIRST": arguments[0],
            "[LAST": arguments[-1],
        }
        return found[operator], at + 1

    return parsed(0)[0]


def test_values_of_generated_expressions():
    random = Random(0)
    for depth in range(1, 9):
        words = expression(random, depth, [word for word in WORDS if word.startswith("[")])
        assert value_of(words) == by_definition(words)
        assert depth_of(words) == depth


def test_parts_of_expressions_are_lists_of_theirs_and_not_deeper_than_the_level():
    random, task = Random(1), LONG_TASKS["listops"]
    for level, most in ((0.0, 1), (0.3, 2), (1.0, 8)):
        deepest = 0
        for _ in range(200):
            whole = task.generate(random)
            found = task.part(random, whole, level)
            words = [WORDS[token - FIRST] for token in found.tokens]
            text, inside = [" ".join(map(str, one.tokens)) for one in (whole, found)]
            assert f" {inside} " in f" {text} " and found.label == by_definition(words)
            deepest = max(deepest, depth_of(words))
        assert deepest == most


@pytest.mark.parametrize("words", ["", "[MAX ]", "[MAX 1", "1 2", "[MOX 1 ]", "1 ]", "12"])
def test_what_is_no_expression_is_refused(words):
    with pytest.raises(ValueError):
        value_of(words.split())


@pytest.mark.parametrize("name", LONG_TASKS)
def test_examples_are_repeated_by_a_seed_and_splits_do_not_overlap(name):
    task = LONG_TASKS[name]
    splits, again = task.splits(None, 3, 12), task.splits(None, 3, 12)
    assert splits.test == again.test
    held = {tuple(one.tokens) for one in splits.validation + splits.test}
    assert len(held) == 24
    batch = LongBatches(splits, 8, 0, group=2).draw()
    assert len(batch) == 8
    for one in batch:
        assert tuple(one.tokens) not in held
        assert 0 <= one.label < task.classes
        assert all(FIRST <= token < task.vocabulary for token in one.tokens)
        assert (one.second is not None) == task.pairs
    assert len({one.label for one in splits.test + batch}) > 1


def test_dots_of_pathfinder_are_two():
    one = LONG_TASKS["pathfinder"].generate(Random(1))
    picture = np.array(one.tokens).reshape(SIDE, SIDE) - FIRST
    assert 9 < (picture == DOT).sum() <= 18


@pytest.mark.parametrize("header", ["", "Source\tTarget\n"])
def test_files_of_listops(tmp_path, header):
    file = tmp_path / "some.tsv.gz"
    text = "( ( [MAX 4 ) 7 ) ]"
    rows = [f"{text}\t7\n" if header else f"7\t{text}\n" for _ in range(3)]
    file.write_bytes(gzip.compress((header + "".join(rows)).encode()))
    assert [one.label for one in read(file)] == [7, 7, 7]
    (tmp_path / "wrong.tsv").write_text("3\t[MAX 1 2 ]\n")
    with pytest.raises(DataError, match="line 1: the label is 3, the value 2"):
        read(tmp_path / "wrong.tsv")


def test_files_of_others(tmp_path):
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + "good one\ta\nbad one\tb\n" * 8)
    splits = LONG_TASKS["bytes"].splits(tmp_path / "t.tsv", 0, 4)
    assert bytes(token - FIRST for token in splits.test[0].tokens) in (b"good one", b"bad one")
    (tmp_path / "x.trees").write_text("(4 (2 A) (3 film))\n" + "(0 (2 Too) (1 bad))\n(2 (2 So) (2 so))\n" * 9)
    assert [one.label for one in LONG_TASKS["bytes"].read(tmp_path / "x.trees")][:2] == [1, 0]
    images = np.arange(12 * 784, dtype=np.uint32).astype(np.uint8)
    sizes = b"".join(n.to_bytes(4, "big") for n in (12, 28, 28))
    (tmp_path / "a-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + sizes + images.tobytes())
    with pytest.raises(ValueError, match="a-labels-idx1-ubyte"):
        LONG_TASKS["pixels"].read(tmp_path / "a-images-idx3-ubyte")
    (tmp_path / "a-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 12]) + bytes(range(12)))
    assert [one.label for one in LONG_TASKS["pixels"].read(tmp_path / "a-images-idx3-ubyte")] == [*range(12)]


@pytest.mark.skipif(not SHARED.exists(), reason="the test sets of Nangia & Bowman are not here")
def test_published_labels_are_ours():
    for name in ("test_d5f", "test_d8"):
        assert len(read(SHARED / f"{name}.tsv.gz")) == 10_000
