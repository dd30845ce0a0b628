"""Tables are read by the names of their columns, whatever wrote them; a bad record is named by its line."""

import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.labelled import Classes, Labelled, Named, labelled, located_texts
from regard.data.marks import mark, marked_words
from regard.data.text import DataError, pairs

REVIEWS = Named("review", "stars")


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        content = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


cells = st.text(st.sampled_from("ab ,;\t\n\"'é"), max_size=8).map(lambda text: f"x{text}x")
quoted = st.text(st.sampled_from('ab ,;\t\n"'), max_size=6).filter(str.strip)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_csv_as_people_have_it(file, mark, end):
    rows = [["id", "review", "stars"], ["7", 'a "fine", film;\nreally', "4"], ["8", "dull\tas dust", "1"]]
    out = io.StringIO()
    csv.writer(out, delimiter=mark).writerows(rows)
    path = file("a.csv" + end, b"\xef\xbb\xbf" + out.getvalue().encode())
    assert list(located_texts(path, REVIEWS)) == [
        (f"{path}, line 2", Labelled('a "fine", film;\nreally', "4")),
        (f"{path}, line 4", Labelled("dull\tas dust", "1")),
    ]


@given(texts=st.lists(cells | quoted, min_size=1, max_size=5), mark=st.sampled_from(",;\t"))
def test_what_csv_writes_is_read(tmp_path_factory, texts, mark):
    path = tmp_path_factory.getbasetemp() / f"written{ord(mark)}.csv"
    with path.open("w", newline="") as out:
        csv.writer(out, delimiter=mark, lineterminator="\n").writerows(
            [["text", "label"], *([text, "1"] for text in texts)]
        )
    assert [one.text for one in labelled(path)] == texts


@given(texts=st.lists(st.text("ab \"'", min_size=1).filter(str.strip), min_size=1, max_size=5))
def test_a_tsv_that_has_no_rule_for_quotes_loses_no_record(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "raw.tsv"
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{i}\n" for i, text in enumerate(texts)))
    assert [one.label for one in labelled(path)] == [str(i) for i in range(len(texts))]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (['"good" film\t1'], ['"good" film']),  # no CSV
        (['"good\t1', 'bad"\t0'], ['"good', 'bad"']),  # one record by the rules, two by the tabs
        (['"a ""fine"" film"\t1'], ['a "fine" film']),
        (['"two', 'lines"\t1', "", "one\t0"], ["two\nlines", "one"]),
        (['it is 5" long\t1'], ['it is 5" long']),
    ],
)
def test_quotes_in_a_tsv_with_a_header(file, lines, found):
    path = file("a.tsv", "\n".join(["sentence\tlabel", *lines]) + "\n")
    assert [one.text for one in labelled(path)] == found


def test_a_text_in_the_last_column_may_have_several_lines(file):
    assert next(labelled(file("a.tsv", 'label\ttext\n1\t"two\nlines"\n'))).text == "two\nlines"


def test_columns_by_number_where_there_is_no_header(file):
    wanted = [Labelled("she sings", "1"), Labelled("he sings", "0")]
    assert list(labelled(file("a.txt", "1\tshe sings\n0\the sings\n"), Named("2", "1"))) == wanted
    assert list(labelled(file("a.csv", "1,x,she sings\n0,y,he sings\n"), Named("3", "1"))) == wanted
    assert list(labelled(file("b.csv", "1,2\n1,she sings\n0,he sings\n"), Named("2", "1"))) == wanted


def test_named_keys_of_jsonl(file):
    path = file("a.jsonl", '{"review": "good", "stars": 5, "text": "no"}\n')
    assert list(labelled(path, REVIEWS)) == [Labelled("good", "5")]


@pytest.mark.parametrize(
    ("name", "text", "named", "says"),
    [
        ("a.csv", "review,stars\na,1\n", Named(), "line 1: the header must have .*--text and --label say"),
        (
            "a.csv",
            "review,stars\na,1\n",
            Named("reviews", "stars"),
            '"reviews" and "stars"; found \'review\'',
        ),
        ("a.csv", "text,label,label\na,1,1\n", Named(), "line 1: the header has the column 'label' 2 times"),
        ("a.csv", "text,label\na,1\nb\n", Named(), "line 3: 2 columns, text, label, are needed; found 1"),
        ("a.csv", 'text,label\n"a\nb",1\n,0\n', Named(), "line 4: text is empty"),
        ("a.csv", 'text,label\na,1\n"b,0\n' + "c,1\n" * 9, Named(), "line 3: not CSV .a quote opens"),
        ("a.csv", 'text,label\n"a"b,1\n', Named(), "line 2: not CSV"),
        ("a.csv", "", Named(), "empty"),
        ("a.tsv", "a\tb\n", REVIEWS, "line 1: the header must have"),
        ("a.tsv", "a\tb\n", Named("2"), "line 1: without a header --label must be the number .* missing"),
        ("a.tsv", "a\tb\n", Named("2", "3"), "--label must be the number of a column, from 1 to 2; got 3"),
        ("a.csv", "text,label\na,1\n", Named(second="why"), '"why"'),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(file, name, text, named, says):
    with pytest.raises(DataError, match=says) as error:
        list(labelled(file(name, text), named))
    assert "\n" not in str(error.value) and name in str(error.value)


def test_pairs_from_a_table(file):
    wanted = [("one, two", "eins, zwei"), ("three", "drei")]
    text = 'id,en,de\n1,"one, two","eins, zwei"\n2,three,drei\n'
    assert list(pairs(file("a.csv.gz", text), None, "en", "de")) == wanted
    text = "source\ttarget\tscore\none, two\teins, zwei\t1\nthree\tdrei\t1\n"
    assert list(pairs(file("a.tsv", text))) == wanted
    text = '{"en": "one, two", "de": "eins, zwei"}\n{"en": "three", "de": "drei"}\n'
    assert list(pairs(file("a.jsonl", text), None, "en", "de")) == wanted
    with pytest.raises(DataError, match="--source-column and --target-column"):
        list(pairs(file("b.csv", "en,de\na,b\n")))
    with pytest.raises(DataError, match="there are two"):
        list(pairs(file("a", "a"), file("b", "b"), "en"))


def test_classes_have_names(tmp_path):
    classes = Classes(["0", "1"], False).renamed(" 0=negative, 1=positive")
    assert classes.names == ("negative", "positive") and classes.labels == ("0", "1")
    classes.save(tmp_path / "classes.json")
    again = Classes.load(tmp_path / "classes.json")
    assert (again.names, again.labels) == (classes.names, classes.labels)
    assert [again.number[label] for label in ("0", "1", "negative", "positive")] == [0, 1, 0, 1]
    swapped = Classes(["0", "1"], False).renamed("0=1,1=0")
    assert [swapped.number[label] for label in ("0", "1")] == [0, 1]  # labels of the data come first


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("0=a", "the label '1' has no name; the labels are 0, 1"),
        ("0=a,1=b,2=c", "there is no label '2'"),
        ("0=a,1=a", "two labels cannot both be 'a'"),
        ("0=a,0=b,1=c", "for the second time"),
        ("0:a,1:b", "must be like 0=negative,1=positive; got '0:a'"),
        ("0=,1=b", "must be like"),
    ],
)
def test_names_of_labels_that_do_not_fit(given, says):
    with pytest.raises(DataError, match=says):
        Classes(["0", "1"], False).renamed(given)


def marked(path, *texts):
    texts = [(f"text {i}", Labelled(text, "x")) for i, text in enumerate(texts, 1)]
    return [[one.text[a:b] for a, b in one.marked] for _, one in mark(texts, path)]


def test_words_and_marks_are_one_kind_of_file(file):
    words, marks = file("words", "he\n\nShe\n"), file("marks", "1 0\n\n0 0 1\n")
    assert marked_words(words) == ("he", "She") and marked_words(marks) is None
    assert marked(words, "He  met she", "herself") == [["He", "she"], []]
    assert marked(marks, "He met", "", "a  b\tc") == [["He"], [], ["c"]]
    for text, says in [
        ("1 0\n", "fewer lines"),
        ("1 0\n1\n1\n", "more lines"),
        ("1\n1\n", "1 marks for the 2"),
    ]:
        with pytest.raises(DataError, match=says):
            marked(file("marks", text), "a b", "c")
