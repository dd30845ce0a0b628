"""Questions about passages: SQuAD's JSON and cloze files, what is left out, and what is refused."""

import gzip
import json

import pytest

from regard.data.corpora import PASSAGES
from regard.data.questions import LeftOut, held_out_part, located_questions
from regard.data.text import DataError
from regard.data.word_features import FEATURES, word_features

PASSAGE = "Anna sold maps. Bert sold lamps."


def squad(*qas, passage=PASSAGE):
    return {"data": [{"title": "t", "paragraphs": [{"context": passage, "qas": list(qas)}]}]}


def qa(text="maps", start=10, **more):
    return {"id": "q", "question": "What?", "answers": [{"text": text, "answer_start": start}], **more}


def read(tmp_path, content, name="q.json"):
    file = tmp_path / name
    text = content if isinstance(content, str) else json.dumps(content)
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    left_out = LeftOut()
    return [question for _, question in located_questions(file, left_out)], left_out


@pytest.mark.parametrize("name", ["q.json", "q.json.gz"])
def test_squad_as_it_is_plain_or_gzip(tmp_path, name):
    several = qa(answers=[{"text": "maps", "answer_start": 10}, {"text": "sold maps", "answer_start": 5}])
    found, left_out = read(tmp_path, squad(qa(), several), name)
    assert [one.answers for one in found] == [["maps"], ["maps", "sold maps"]]
    assert found[0].title == "t" and found[0].key == "q" and not left_out.sentences


def test_what_cannot_be_used_is_left_out_named_and_counted(tmp_path):
    wrong, negative = qa("maps", 11, id="w"), qa("maps", -22, id="n")
    impossible, without = qa(is_impossible=True, answers=[]), qa(answers=[], id="u")
    found, left_out = read(tmp_path, squad(qa(), wrong, negative, impossible, without, qa(question=" ")))
    assert len(found) == 1
    assert left_out.counts == {"answer": 2, "impossible": 1, "unanswered": 1, "empty": 1}
    assert any("'w'" in one and one.startswith("2 questions") for one in left_out.sentences)
    with pytest.raises(DataError, match="no question that could be used"):
        read(tmp_path, squad(qa(), passage="  "))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("[1]", '"data", a list of documents'),
        ('{"questions": []}', "found 'questions'"),
        ('{"data": [{"title": "t"}]}', '"paragraphs", a list, is needed'),
        ('{"data": [3]}', '"title", a text, is needed'),
        (json.dumps(squad(qa(start="7"))), '"answer_start" must be a whole number'),
        (json.dumps(squad({"id": "q", "answers": []})), '"question", a text, is needed'),
        ('{"data": []}', "no question that could be used"),
    ],
)
def test_json_of_another_shape_is_one_sentence(tmp_path, content, says):
    with pytest.raises(DataError) as error:
        read(tmp_path, content)
    assert says in str(error.value) and str(error.value).endswith(".") and "\n" not in str(error.value)


def test_a_cloze_has_all_places_of_its_answer(tmp_path):
    line = {"passage": "cat saw dog . dogs saw cat .", "question": "XXXXX saw dog", "answer": "cat"}
    found, left_out = read(tmp_path, "\n".join(map(json.dumps, [line, {**line, "answer": "cow"}])), "c.jsonl")
    assert [one.spans for one in found] == [((0, 3), (23, 26))]
    assert left_out.counts == {"answer": 1}
    with pytest.raises(DataError, match='"answer"'):
        read(tmp_path, '{"passage": "a", "question": "b"}', "c.jsonl")


def test_the_childrens_book_test(tmp_path):
    text = "1 The cat sat .\n2 The dog ran .\n21 XXXXX ran home .\tdog\t\tcat|dog\n\n"
    text += "1 A cow .\n21 XXXXX !\tcow\t\tcow\n"
    found, _ = read(tmp_path, text, "cbt.txt")
    assert [(one.passage, one.answers) for one in found] == [
        ("The cat sat . The dog ran .", ["dog"]),
        ("A cow .", ["cow"]),
    ]
    with pytest.raises(DataError, match="begins with a number"):
        read(tmp_path, "The cat\n", "cbt.txt")
    with pytest.raises(DataError, match="SQuAD's .json"):
        read(tmp_path, "x", "cbt.csv")


def test_a_passage_is_held_out_with_all_its_questions():
    passages = [f"passage {i}" for i in range(400)]
    valid = [one for one in passages if held_out_part(one, "valid")]
    assert 20 < len(valid) < 60
    assert all(held_out_part(one, "train") != held_out_part(one, "valid") for one in passages)


@pytest.mark.parametrize("name", PASSAGES)
def test_generated_answers_are_where_they_are_said_to_be(name):
    makes = PASSAGES[name](1, "train")
    for _ in range(200):
        one = next(makes)
        assert one.spans and len(set(one.answers)) == 1
        (answer,) = set(one.answers)
        if name == "cloze":
            fact = one.question.split("@placeholder ")[1]
            assert f"{answer} {fact}" in one.passage
            assert all(one.passage[stop] == " " for _, stop in one.spans)
        else:
            who, day = one.question.split()[2], one.question.split()[-2]
            if one.question.startswith("Who"):
                who = answer
            sentences = [s for s in one.passage.split(" .") if who in s and day in s]
            assert len(sentences) == 1 and answer in sentences[0]
    assert not {q.passage for q, _ in zip(PASSAGES[name](1, "valid"), range(50), strict=False)} & {
        q.passage for q, _ in zip(PASSAGES[name](1, "train"), range(50), strict=False)
    }


def test_features_of_words():
    found = word_features(["Maps", "mapping", ",", "7th", "."], ["maps", "mappings", ","])
    by_name = [dict(zip(FEATURES, row, strict=True)) for row in found]
    assert [row["found"] for row in by_name] == [1, 0, 0, 0, 0]
    assert [row["stem"] for row in by_name] == [1, 1, 0, 0, 0]
    assert [row["mark"] for row in by_name] == [0, 0, 1, 0, 1]
    assert [row["number"] for row in by_name] == [0, 0, 0, 1, 0]
    assert by_name[0]["capital"] == by_name[0]["first"] == 1 and by_name[1]["first"] == 0
