"""Reading as a task: SQuAD's scores, files as they are, commands, masks, and the case that audits ask."""

import json
from itertools import islice

import pytest
import torch

import regard
from commands import run
from regard.data.cooccurrence import cooccurrence_vectors
from regard.data.corpora import PASSAGES
from regard.data.questions import PassageQuestion
from regard.data.text import DataError
from regard.data.tokenizer import Tokenizer
from regard.recording import record
from regard.runs import fit, resolve
from regard.tasks.passage_codec import PassageCodec
from regard.tasks.squad_scores import exact_match, f1, normalized

SMALL = {"embedding": 8, "width": 8, "decoder": 8, "pool": 2}
TRAINING = {"steps": 4, "tokens": 1024, "examples": 64, "validate": 4, "save": 4}
PASSAGE = "Anna sold nine maps near the river on Monday . On Sunday Leo lost two old coats ."


def squad(count=24, bad=True):
    documents = []
    for i in range(count):
        passage = f"The cat number {i} sat (quietly) on mat {i}. It ate fish."
        start = passage.index(f"mat {i}")
        answers = [
            {"text": f"mat {i}", "answer_start": start},
            {"text": "fish", "answer_start": passage.index("fish")},
        ]
        qas = [{"id": f"a{i}", "question": f"Where did cat {i} sit?", "answers": answers}]
        if bad and i == 0:
            qas.append({"id": "wrong", "question": "Who?", "answers": [{"text": "dog", "answer_start": 4}]})
            qas.append({"id": "none", "question": "Who?", "answers": [], "is_impossible": True})
        documents.append({"title": str(i), "paragraphs": [{"context": passage, "qas": qas}]})
    return {"data": documents}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    file = tmp_path_factory.mktemp("squad") / "train.json"
    file.write_text(json.dumps(squad()))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory, files):
    out = tmp_path_factory.mktemp("reader") / "run"
    said = []
    values = {"task": "reading", "data": {"train": str(files)}, "model": SMALL, "training": TRAINING}
    fit(resolve(values), out, say=said.append)
    assert any("1 questions have an answer that is not in their passage, as 'wrong'" in one for one in said)
    assert any("1 questions have no answer in their passage" in one for one in said)
    return out


@pytest.mark.parametrize(
    ("said", "right", "exact", "share"),
    [
        ("The Cat.", ["a cat"], 1.0, 1.0),
        ("big cat", ["the cat", "dog"], 0.0, 2 / 3),
        ("cat cat", ["cat"], 0.0, 2 / 3),
        ("dog", ["cat"], 0.0, 0.0),
        ("the", ["a"], 1.0, 1.0),  # nothing is left of either
        ("the", ["cat"], 0.0, 0.0),
    ],
)
def test_squads_scores(said, right, exact, share):
    assert exact_match(said, right) == exact
    assert f1(said, right) == pytest.approx(share)
    assert normalized(" An  «apple», the (pear)! ") == "«apple» pear"


def test_offsets_become_tokens_and_back_exactly():
    tokenizer = Tokenizer.train([PASSAGE, "(Hello) world-wide 3.5%"], "lowercase", 60)
    passage = "Hello (World), Leo's 3.5% — naïve two."
    (texts,) = PassageCodec(tokenizer).encode([(passage, "Who?")])
    for answer in ("World", "(World)", "Leo", "3.5%", "naïve two", "Hello"):
        start = passage.index(answer)
        bounds = texts.tokens_of((start, start + len(answer)))
        assert bounds is not None
        first, last = texts.characters(*bounds)
        assert passage[first:last] == answer
    assert texts.tokens_of((5, 6)) is None  # a space


def test_unseen_names_get_numbers_that_are_known():
    tokenizer = Tokenizer.train(["@entity0 saw @entity1 .", "@placeholder saw"], "lowercase", 60)
    codec = PassageCodec(tokenizer)
    assert len(codec.entities) == 2
    (texts,) = codec.encode([("@entity77 saw @ENTITY5 .", "@placeholder saw @entity5")])
    assert texts.tokens[0] == codec.entities[0] and texts.tokens[2] == codec.entities[1]
    assert texts.question_tokens[-1] == texts.tokens[2]


def test_vectors_of_counts_put_words_of_the_same_use_together():
    chance = torch.Generator().manual_seed(0)
    texts = []
    for _ in range(300):
        kind, one, other = torch.randint(0, 2, (3,), generator=chance).tolist()
        texts.append(
            [8 + kind, 4 + 2 * kind + one, 10 + 2 * kind + other]
        )  # 4 and 5 are used alike, as 6 and 7
    found = cooccurrence_vectors(texts, 14, 4)
    near = torch.nn.functional.cosine_similarity(found[:, None], found[None], dim=-1)
    assert near[4, 5] > 0.9 > near[4, 6] and near[6, 7] > 0.9
    assert cooccurrence_vectors([[4, 5]], 6, 8) is None and cooccurrence_vectors([], 60, 8) is None


def test_evaluate_counts_what_it_leaves_out_and_writes_answers(folder, files, tmp_path):
    out = tmp_path / "answers.json"
    done = run("evaluate", folder, "--data", files, "--out", out, "--json")
    figures = json.loads(done.stdout)
    assert 0 <= figures["exact_match"] <= figures["f1"] <= 100 and figures["questions"] == 24
    assert figures["left_out"] == {"answer": 1, "impossible": 1}
    said = json.loads(out.read_text())
    right = {
        q["id"]: [a["text"] for a in q["answers"]]
        for d in squad(bad=False)["data"]
        for q in d["paragraphs"][0]["qas"]
    }
    assert said.keys() == right.keys()
    assert figures["f1"] == pytest.approx(100 * sum(f1(said[k], right[k]) for k in right) / 24)
    assert "left out" in run("evaluate", folder, "--data", files).stdout


def test_answer_marks_the_span_in_the_passage(folder, tmp_path):
    file = tmp_path / "page.txt"
    file.write_text(PASSAGE)
    facts = json.loads(
        run("answer", folder, "--passage", file, "--question", "Who sold maps?", "--json").stdout
    )
    assert PASSAGE[facts["start"] : facts["end"]] == facts["answer"] and facts["answer"]
    assert (
        f"【{facts['answer']}】"
        in run("answer", folder, "--passage", file, "--question", "Who sold maps?").stdout
    )


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "--passage, a text file, and --question are needed"),
        (["--passage", "nowhere.txt", "--question", "Who?"], "no such file"),
        (["--passage", "EMPTY", "--question", "Who?"], "the passage is empty"),
        (["--passage", "PAGE", "--question", " "], "--question is empty"),
        (["--passage", "LONG", "--question", "Who?"], "tokens; at most 16,384 are read"),
    ],
)
def test_bad_questions_are_one_sentence(folder, tmp_path, more, says):
    for name, text in (("EMPTY", " \n"), ("PAGE", PASSAGE), ("LONG", "a " * 100_000)):
        (tmp_path / name).write_text(text)
    more = [tmp_path / one if one in ("EMPTY", "PAGE", "LONG") else one for one in more]
    done = run("answer", folder, *more)
    assert done.exit_code == 2 and says in done.stderr


def test_a_file_of_another_shape_leaves_no_folder(tmp_path):
    file, out = tmp_path / "train.json", tmp_path / "run"
    file.write_text('{"questions": []}')
    done = run("train", "reading", "--data", file, "--out", out)
    assert done.exit_code == 2 and '"data", a list of documents' in done.stderr and not out.exists()
    file.write_text(json.dumps(squad(1)))
    done = run("train", "reading", "--data", file, "--out", out)
    assert done.exit_code == 2 and "too few passages" in done.stderr and not out.exists()


def test_both_directions_are_shown_and_a_masked_word_is_in_neither(folder):
    system = regard.load(folder)
    (answer,) = system.answer([(PASSAGE, "Who sold maps ?")])
    over_passage, over_question = system.weights(answer)
    assert over_passage.shape == over_question.shape == (1, 4, len(answer.texts.tokens))
    with record(system.model, system.layers) as seen:
        system.forward([answer.texts])
    torch.testing.assert_close(over_passage[0], seen["over_passage"][0].weights[0, 1:, 1:])
    torch.testing.assert_close(over_question[0], seen["over_question"][0].weights[0, 1:, 1:].T)
    with system.masking([2, 5]):
        for weights in system.weights(system.answer([(PASSAGE, "Who sold maps ?")])[0]):
            assert float(weights[..., [2, 5]].abs().max()) == 0 < float(weights[..., 3].max())


def test_the_case_of_a_reader_decides_for_its_answer_and_its_own_weights_change_nothing(folder):
    system = regard.load(folder)
    questions = [
        PassageQuestion(PASSAGE, "Who sold maps ?", ((0, 4),)),
        PassageQuestion(PASSAGE[:46], "Where ?", ((20, 34),)),
    ]
    case = system.case(questions)
    assert case.words[0][:2] == ["Anna", "sold"] and sum(case.highlights[0]) == 1
    for batch in case.batches:
        torch.testing.assert_close(batch.intervene(batch.weights), batch.probabilities, atol=1e-6, rtol=1e-5)
        assert not torch.allclose(batch.intervene(batch.weights.flip(-1)), batch.probabilities, atol=1e-9)
    assert all(len(row) == len(text) for row, text in zip(case.gradient, case.texts, strict=True))
    assert all(len(row) == len(text) for row, text in zip(case.leave_one_out, case.texts, strict=True))
    with pytest.raises(ValueError, match="takes \\(passage, question\\)"):
        system.answer(["one text"])
    with pytest.raises(ValueError, match="the passage is empty"):
        system.answer([(" ", "Who ?")])


@pytest.mark.slow
def test_a_reader_is_audited(folder, files):
    done = run("audit", folder, "--data", files, "--quick")
    assert done.exit_code == 0, done.output
    assert "erasure" in (folder / "audit" / "quick.json").read_text()


@pytest.mark.parametrize("name", ["attention_sum", "attention_over_attention"])
def test_a_cloze_is_answered_by_one_word_however_often_it_stands_there(tmp_path, name):
    values = {
        "task": "reading",
        "data": {"corpus": "cloze"},
        "model": {"name": name, "embedding": 16, "width": 16},
        "training": TRAINING,
    }
    system = fit(resolve(values), tmp_path / "run").system
    examples = list(islice(PASSAGES["cloze"](0, "test"), 40))
    answers = system.answer([(one.passage, one.question) for one in examples])
    assert all(one.said in one.passage.split() for one in answers)


def test_an_encoders_vectors_are_put_in_and_stay(tmp_path, files):
    tokenizers = pytest.importorskip("tokenizers")
    from regard.core.weights import save_tensors

    words = {"[UNK]": 0, "the": 1, "cat": 2, "fish": 3, "mat": 4}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.save(str(tmp_path / "tokenizer.json"))
    save_tensors({"embeddings.word_embeddings.weight": torch.randn(5, 12)}, tmp_path / "model.safetensors")
    values = {
        "task": "reading",
        "data": {"train": str(files), "vectors": f"hf:{tmp_path}"},
        "model": SMALL,
        "training": TRAINING,
    }
    done = fit(resolve(values), tmp_path / "run")
    assert not done.system.model.words.weight.requires_grad
    values["data"]["vectors"] = "hf:nowhere"
    with pytest.raises(DataError, match="no tokenizer.json"):
        fit(resolve(values), tmp_path / "other")
