"""Parallel text is read as it is, and what cannot be read is one clear error."""

import gzip
import json
import os
from threading import Thread

import pytest

from regard.data import DataError, lines, pairs, text_lines
from regard.data.text import LONGEST


@pytest.fixture
def file(tmp_path):
    """Write a file of bytes or text, and give its path."""

    def write(name, content):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.mark.parametrize("end", ["", ".gz"])
def test_two_files_are_read_side_by_side(file, end):
    source, target = file("a.en" + end, "one\n\n  two \n"), file("a.de" + end, "eins\nleer\r\n  zwei ")
    assert list(pairs(source, target)) == [("one", "eins"), ("", "leer"), ("  two ", "  zwei ")]


def test_tsv_and_jsonl_give_the_same_pairs(file):
    wanted = [("one", "eins"), ("", "größer"), ("a\u2028b", "🙂")]
    entries = [{"source": a, "target": b, "more": 1} for a, b in wanted]
    nested = [{"translation": {"en": a, "de": b}, "id": 7} for a, b in wanted]
    tsv = file("a.tsv", "\n".join("\t".join(pair) for pair in wanted))
    jsonl = file("a.jsonl", "\n".join(map(json.dumps, entries)) + "\n\n")
    other = file("b.jsonl.gz", "\n".join(json.dumps(each, ensure_ascii=False) for each in nested))
    assert list(pairs(tsv)) == list(pairs(jsonl)) == list(pairs(other)) == wanted


def test_only_newlines_end_a_line(file):
    text = "a\u2028b\u0085c\x0cd\x1ce"
    assert list(lines(file("a.txt", text + "\nf"))) == [text, "f"]


def test_the_mark_before_the_first_line_is_not_text(file):
    assert list(lines(file("a.txt", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo"))) == ["one", "\ufefftwo"]


def test_reading_is_a_stream(file):
    path = file("a.txt", "one\ntwo\n\xff".encode("latin-1"))
    stream = lines(path)
    assert [next(stream), next(stream)] == ["one", "two"]
    with pytest.raises(DataError, match="line 3"):
        next(stream)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"good\nb\xe4d\n", r"line 2: invalid UTF-8 at byte 2 \(0xe4\)"),
        (b"cut \xe2\x82", r"line 1: invalid UTF-8 at byte 5"),
        (b"good\nb\0d\n", "line 2: a NUL byte at byte 2"),
        ("text".encode("utf-16-le"), "line 1: a NUL byte at byte 2"),
        (b"good\n" + b"x" * 100_000 + b"\nmore\n", "line 2: more than 65,536 bytes"),
        (b"x" * 10_000_000, "line 1: more than 65,536 bytes"),
        (b"", "the file is empty"),
    ],
)
@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_bad_line_is_named(file, content, said, end):
    path = file("bad.en" + end, content)
    with pytest.raises(DataError, match=said) as error:
        list(lines(path))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_line_of_just_the_limit_is_read(file):
    whole = "x" * LONGEST
    assert list(lines(file("a.txt", f"{whole}\r\n{whole}"))) == [whole, whole]


def test_a_pipe_is_read_once_somebody_writes_into_it(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=("one\ntwo\n",))
    writer.start()
    assert list(lines(pipe)) == ["one", "two"]
    writer.join()


def test_a_pipe_that_nobody_writes_into_is_no_wait_for_ever(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe.gz"
    os.mkfifo(pipe)
    monkeypatch.setattr(text_lines, "PATIENCE", 0.01)
    with pytest.raises(DataError, match="this is a pipe, and nothing was written into it"):
        list(lines(pipe))


def test_files_of_different_length_are_counted(file):
    long, short = file("a.en", "1\n2\n3\n4\n5\n"), file("a.de", "1\n2\n")
    with pytest.raises(DataError, match=r"a\.de has 2 lines and .*a\.en has 5"):
        list(pairs(long, short))
    with pytest.raises(DataError, match=r"a\.de has 2 lines and .*a\.en has 5"):
        list(pairs(short, long))


def test_no_file_no_text(file, tmp_path):
    with pytest.raises(DataError, match="nowhere.txt: there is no such file"):
        list(lines(tmp_path / "nowhere.txt"))
    with pytest.raises(DataError, match="this is a folder"):
        list(lines(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        list(lines(file("a.txt", "") / "inside"))
    with pytest.raises(DataError, match=r"must end in \.tsv, \.csv or \.jsonl"):
        list(pairs(file("a.xml", "a,b")))


def test_broken_gzip_is_named(file, tmp_path):
    whole = gzip.compress(b"line\n" * 100_000)
    broken = {"cut": whole[:-20], "not": b"plain text\n", "sum": whole[:-8] + bytes(4) + whole[-4:]}
    for name, content in broken.items():
        path = tmp_path / f"{name}.gz"
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}\.gz, after line \d+: the gzip data is broken"):
            list(lines(path))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{'source'}", "line 2: not JSON"),
        ("[1, 2]", "line 2: .* is needed; found no object"),
        ('{"text": "a"}', "line 2: .* is needed; found 'text'"),
        ('{"en": "a", "de": "b"}', "line 2: .* is needed; found 'en', 'de'"),
        ("{}", "line 2: .* is needed; found none"),
        ('{"translation": {"en": "a", "de": "b", "fr": "c"}}', "line 2: .* is needed"),
        ('{"translation": null}', "line 2: .* is needed"),
        ('{"source": "a", "target": null}', "line 2: source and target must be text; got NoneType"),
        ('{"source": "a", "target": "b\\u0000"}', "line 2: a NUL character"),
        ('{"source": "a", "target": "\\ud800"}', "line 2: half of a surrogate pair"),
    ],
)
def test_a_bad_jsonl_line_is_named(file, line, said):
    with pytest.raises(DataError, match=said):
        list(pairs(file("a.jsonl", '{"source": "a", "target": "b"}\n' + line)))


@pytest.mark.parametrize("line", ["alone", "a\tb\tc", ""])
def test_tsv_has_two_columns(file, line):
    with pytest.raises(
        DataError, match=f"line 2: 2 columns, source, target.* found {len(line.split(chr(9)))}"
    ):
        list(pairs(file("a.tsv", f"a\tb\n{line}\n")))
