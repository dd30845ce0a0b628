"""Labelled text is read as written, and what cannot be read is named with its line."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.fields import number_field, token_field
from regard.data.labelled import Classes, Labelled, labelled
from regard.data.segments import split_words
from regard.data.text import DataError
from regard.data.tokenizer import Tokenizer
from regard.data.vectors import vectors
from regard.runs import resolve
from regard.tasks.classification import CLASSIFICATION, TextParts


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_tsv_without_a_header(tmp_path):
    path = written(tmp_path / "a.tsv", "a fine film\tpos\nlabel this\t0\n")
    assert list(labelled(path)) == [Labelled("a fine film", "pos"), Labelled("label this", "0")]


@pytest.mark.parametrize("heading", ["sentence\tlabel", "Text\tLabel", "label\ttext"])
def test_tsv_with_a_header(tmp_path, heading):
    row = "1\tgood" if heading.startswith("label") else "good\t1"
    assert list(labelled(written(tmp_path / "a.tsv", f"{heading}\n{row}\n"))) == [Labelled("good", "1")]


def test_tsv_with_second_texts(tmp_path):
    path = written(tmp_path / "a.tsv", "text\tsecond\tlabel\nit rained\tit was wet\tyes\n")
    assert list(labelled(path)) == [Labelled("it rained", "yes", "it was wet")]


def test_jsonl_and_gzip(tmp_path):
    rows = [
        {"text": "so good", "label": 1, "highlights": [[3, 7]]},
        {"text": "so bad", "label": "0", "highlights": [0, 1]},
        {"text": "so", "label": 0},
        {"text": "so so", "label": 0, "highlights": []},
    ]
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found = list(labelled(path))
    assert [one.label for one in found] == ["1", "0", "0", "0"]
    assert [one.highlights for one in found] == [((3, 7),), ((3, 6),), None, ()]
    assert [one.highlighted for one in found] == [[False, True], [False, True], None, [False, False]]


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6),
    data=st.data(),
)
def test_a_word_is_highlighted_if_any_of_it_is(words, data):
    text = "  ".join(words)
    start = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(start + 1, len(text)))
    touched = [any(start <= i < stop for i in range(a, b)) for a, b in split_words(text)]
    assert Labelled(text, "x", None, ((start, stop),)).highlighted == touched
    assert [text[a:b] for a, b in split_words(text)] == text.split()


def test_marks_of_words_count_what_white_space_separates(tmp_path):
    rows = [
        {"text": "我喜欢猫", "label": 1, "highlights": [1]},
        {"text": "我 喜欢 猫", "label": 1, "highlights": [0, 1, 0]},
        {"text": "a\x1cb c", "label": 1, "highlights": [1, 0]},
        {"text": "我喜欢猫", "label": 1, "highlights": [[1, 3]]},
    ]
    found = list(labelled(written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))))
    assert [one.highlights for one in found] == [((0, 4),), ((2, 4),), ((0, 3),), ((1, 3),)]
    assert found[0].highlighted == [True] * 4  # and is asked for characters
    assert found[1].highlighted == found[3].highlighted == [False, True, True, False]
    assert found[1].overlaps([(0, 3), (0, 2), (3, 3)]) == [True, False, False]
    with pytest.raises(DataError, match="4 highlights for 1 words"):
        list(labelled(written(tmp_path / "b.jsonl", json.dumps({**rows[0], "highlights": [1, 0, 0, 0]}))))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.xml", "x,y\n", ".tsv or .jsonl"),
        (
            "a.csv",
            "x,y\n",
            r"line 1: the header must have \"text\" \(or \"sentence\"\) and \"label\"; found 'x', 'y'",
        ),
        ("a.tsv", "", "empty"),
        ("a.tsv", "text\tlabel\n", "no labelled text"),
        ("a.tsv", "a film\n", "line 1: 2 columns, text, label, are needed; found 1"),
        ("a.tsv", "good\t1\nbad\t0\tx\n", "line 2: 2 columns"),
        ("a.tsv", "good\t1\n\t0\n", "line 2: text is empty"),
        ("a.tsv", "good\t \n", "line 1: label is empty"),
        ("a.tsv", "label\tother\n", "header"),
        ("a.jsonl", "{\n", "line 1: not JSON"),
        ("a.jsonl", '{"text": "a"}\n', 'with "text" .* and "label"'),
        ("a.jsonl", "[1]\n", 'with "text" .* and "label"'),
        ("a.jsonl", '{"text": 3, "label": 1}\n', "text must be text; got int"),
        ("a.jsonl", '{"text": "a", "label": true}\n', "label must be text; got bool"),
        ("a.jsonl", '{"text": "a", "label": "x\\ny"}\n', "one line"),
        ("a.jsonl", '{"text": "a\\u0000", "label": "x"}\n', "NUL"),
        ("a.jsonl", '{"text": "\\ud800", "label": "x"}\n', "surrogate"),
        ("a.jsonl", '{"text": "a b", "label": 1, "highlights": [1]}\n', "1 highlights for 2 words"),
        ("a.jsonl", '{"text": "a b", "label": 1, "highlights": [[0, 4]]}\n', r"\[0, 4\]"),
        ("a.jsonl", '{"text": "a b", "label": 1, "highlights": [[2, 2]]}\n', "within the 3 characters"),
        ("a.jsonl", '{"text": "a b", "label": 1, "highlights": [[-1, 2]]}\n', "within"),
        ("a.jsonl", '{"text": "a b", "label": 1, "highlights": [[0, 1, 2]]}\n', "within"),
        ("a.jsonl", '{"text": "a b", "label": 1, "highlights": [0.5, 1]}\n', "0 and 1"),
        ("a.jsonl", '{"text": "a b", "label": 1, "highlights": "a"}\n', "must be a list"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1, "second": "b"}\n{"text": "a", "label": 1}\n',
            "line 2: either every line",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, text, words):
    with pytest.raises(DataError, match=words):
        list(labelled(written(tmp_path / name, text)))


def test_label_and_second_text_are_fields_of_their_own(tmp_path):
    settings = resolve({"task": "classification", "data": {"corpus": "sentiment"}})
    tokenizer = Tokenizer.train(["it rained", "it was wet"], "word", 8)
    classes = Classes.of([Labelled("it rained", "yes", "wet"), Labelled("it rained", "no", "was wet")])
    assert classes.names == ("no", "yes") and classes.pairs
    parts, text = TextParts(tokenizer, classes), Labelled("it rained", "yes", "it was\nwet")
    assert CLASSIFICATION.encode(settings, parts, [text]) == [
        {"tokens": tokenizer.encode("it rained"), "label": 1, "second": tokenizer.encode("it was wet")}
    ]
    fields = CLASSIFICATION.fields(settings, parts)
    assert fields == {"tokens": token_field(8), "second": token_field(8), "label": number_field()}
    alone = TextParts(tokenizer, Classes(["no", "yes"], False))
    (row,) = CLASSIFICATION.encode(settings, alone, [Labelled("it was wet", "no")])
    assert row == {"tokens": tokenizer.encode("it was wet"), "label": 0}
    assert list(CLASSIFICATION.fields(settings, alone)) == ["tokens", "label"]
    classes.save(tmp_path / "classes.json")
    again = Classes.load(tmp_path / "classes.json")
    assert (again.names, again.pairs) == (classes.names, classes.pairs)


def test_classes_refuse_one_label_unknown_labels_and_what_is_no_file_of_theirs(tmp_path):
    with pytest.raises(DataError, match="all 'x'"):
        Classes.of([Labelled("a", "x"), Labelled("b", "x")])
    classes = Classes(["a", "b"], False)
    with pytest.raises(DataError, match="here: the label 'c' is not among those trained on: a, b"):
        classes.check(Labelled("t", "c"), "here")
    with pytest.raises(DataError, match="a second text came"):
        classes.check(Labelled("t", "a", "s"), "here")
    with pytest.raises(DataError, match="a second text is needed"):
        Classes(["a", "b"], True).check(Labelled("t", "a"), "here")
    with pytest.raises(DataError, match="not a file of labels"):
        Classes.load(written(tmp_path / "c.json", "[]"))


@pytest.mark.parametrize("head", ["", "3 2\n"])
def test_vectors_of_known_words_are_found(tmp_path, head):
    tokenizer = Tokenizer.train(["good bad film"], "word", 7)
    path = written(tmp_path / "v.txt", head + "good 1 2\nother 3 4\n. . 5 6\nbad -1e-1 0.5 \n")
    tokens, found = vectors(path, tokenizer, 2)
    rows = dict(zip(tokens.tolist(), found.tolist(), strict=True))
    assert rows == {
        tokenizer.encode("good")[0]: [1, 2],
        tokenizer.encode("bad")[0]: pytest.approx([-0.1, 0.5]),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("good 1 2 3\n", "vectors of 3 numbers, but the model's words have 2. Set model.embedding=3"),
        ("good 1\n", "vectors of 1 numbers"),
        ("4 3\n", "vectors of 3 numbers"),
        ("good 1 x\n", "line 1: a word and 2 numbers"),
        ("good 1 nan\n", "not finite"),
        ("other 1 2\n", "none of its words"),
    ],
)
def test_vectors_that_do_not_fit(tmp_path, text, words):
    with pytest.raises(DataError, match=words):
        vectors(written(tmp_path / "v.txt", text), Tokenizer.train(["good bad"], "word", 6), 2)
