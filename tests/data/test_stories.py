"""Stories with questions: bAbI's format, .jsonl, which files are meant, and generated ones."""

import gzip
import json
from itertools import islice

import pytest

from regard.data.corpora import STORIES
from regard.data.stories import questions, sentence_spans, sentences, story_files, task_name, words
from regard.data.text import DataError

BABI = (
    "1 Mary moved to the bathroom.\n2 John went to the hallway.\n3 Where is Mary? \tbathroom\t1\n"
    "4 Daniel took the milk.\n5 What is Daniel carrying?\tmilk,football\t4 2\n"
    "1 Anna sat.\n2 Who sat?\tAnna\t1\n"
)


def test_babi_as_it_is(tmp_path):
    file = tmp_path / "qa1_single-supporting-fact_train.txt"
    file.write_text(BABI)
    packed = tmp_path / "qa1_x.txt.gz"
    packed.write_bytes(gzip.compress(BABI.encode()))
    found = [one for _, one in questions(file)]
    assert found == [one for _, one in questions(packed)]
    assert [len(one.story) for one in found] == [2, 3, 1]
    assert [one.answer for one in found] == ["bathroom", "milk,football", "Anna"]
    assert [one.facts for one in found] == [(0,), (2, 1), (0,)]
    assert [one.number for one in found] == [0, 0, 1] and found[0].task == "qa1"
    assert found[1].question == "What is Daniel carrying?"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Mary moved.\n", "number"), ("1 Mary moved.\n", "no question"), ("1 Where?\tx\t1\n", "no lines"),
        ("1 Where?\tx\n", "without a story"), ("1 A.\n2 \tx\t1\n", "needed"),
        ("1 A.\n2 Who?\t\t1\n", "needed"), ("1 A.\n2 Who?\tx\tone\n", "no lines"), ("", "empty"),
    ],
)  # fmt: skip
def test_what_is_no_story_is_named_with_its_line(tmp_path, text, why):
    file = tmp_path / "x.txt"
    file.write_text(text)
    with pytest.raises(DataError, match=why) as error:
        list(questions(file))
    assert str(file) in str(error.value)


def test_objects(tmp_path):
    file = tmp_path / "some.jsonl"
    entries = [
        {"story": ["Mary sat.", "John ran."], "question": "Who ran?", "answer": "John", "facts": [1]},
        {"story": "Mary sat. John ran!", "question": "Who sat?", "answer": "Mary", "task": "sitting"},
    ]
    file.write_text("\n".join(map(json.dumps, entries)))
    one, other = (question for _, question in questions(file))
    assert one.story == ("Mary sat.", "John ran.") or list(one.story) == ["Mary sat.", "John ran."]
    assert one.facts == (1,) and one.task == "some" and other.task == "sitting"
    assert list(other.story) == ["Mary sat.", "John ran!"]
    for wrong in (
        {"story": 3, "question": "a", "answer": "b"},
        {"story": [], "question": "a", "answer": "b"},
        {"story": ["a"], "question": "", "answer": "b"},
        {"story": ["a"], "question": "a", "answer": 3},
        {"story": ["a"], "question": "a", "answer": "b", "facts": [1]},
        [],
    ):
        file.write_text(json.dumps(wrong))
        with pytest.raises(DataError):
            list(questions(file))


def test_files_folders_and_patterns(tmp_path):
    for name in ("qa10_b_train.txt", "qa2_a_train.txt", "qa2_a_test.txt", "notes.md"):
        (tmp_path / name).write_text(BABI)

    def names(given, part=None):
        return [path.rsplit("/", 1)[-1] for path in story_files([str(one) for one in given], part)]

    assert names([tmp_path], "train") == ["qa2_a_train.txt", "qa10_b_train.txt"]
    assert names([tmp_path]) == ["qa2_a_test.txt"]
    assert names([tmp_path / "*_train.txt"], "train") == ["qa2_a_train.txt", "qa10_b_train.txt"]
    assert names([tmp_path / "qa2_a_test.txt"] * 2, "train") == ["qa2_a_test.txt"]
    with pytest.raises(DataError, match="called"):
        names([tmp_path / "*.nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="folder"):
        names([tmp_path / "empty"])


def test_a_million_spaces_are_read_in_one_go():
    """An expression that backtracks took more than an hour."""
    assert sentence_spans(" " * 1_000_000 + "\nHe left. " + " " * 1_000_000) == [(1_000_001, 1_000_009)]


def test_words_sentences_and_names():
    assert words("Where's Mary's milk, then?") == ["where's", "mary's", "milk", "then"]
    assert sentences("1 Mary sat. John ran\n2 Where?\tx\t1\n 3 Who!  ") == ["Mary sat.", "John ran", "Who!"]
    assert sentences("3 apples lay there.\nMary ate 2.") == ["3 apples lay there.", "Mary ate 2."]
    text = "  Mary sat.  John ran\n\n ... Who!"
    assert [text[a:b] for a, b in sentence_spans(text)] == ["Mary sat.", "John ran", "Who!"]
    assert sentence_spans(" \n. ") == []
    assert task_name("a/qa12_conjunction_test.txt.gz") == "qa12" and task_name("toy_train.jsonl") == "toy"


@pytest.mark.parametrize("name", STORIES)
def test_generated_stories_can_be_answered_from_their_facts_alone(name):
    for one in islice(STORIES[name](1, "test"), 50):
        facts = [words(one.story[fact]) for fact in one.facts]
        assert facts[-1][-1] == one.answer
        asked = words(one.question)[-1]
        assert asked in facts[0]
        if one.task == "two_facts":
            assert len(facts) == 2 and facts[0][0] == facts[1][0]
    first, again, other = (next(iter(STORIES[name](seed, "train"))) for seed in (1, 1, 2))
    assert first == again != other
