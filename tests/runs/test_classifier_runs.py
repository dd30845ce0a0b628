"""A classifier from labelled texts to answers: trained, continued, loaded, asked, refused."""

import json
import signal

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.core.errors import RunError, SettingsError
from regard.core.weights import load_tensors
from regard.data.text import DataError
from regard.runs import fit, resolve
from regard.runs.folder import read_config
from regard.tasks.class_scores import class_quality
from regard.tasks.classification import CLASSIFICATION
from regard.training import Interrupted
from runs.tiny import CLASSIFIER as SETTINGS
from runs.tiny import changed

GOOD, BAD = "so good", "so bad"
LEARNED = {"name": "transformer_encoder", "positions": "learned", "embedding": 16}


def settings(**groups):
    """Those of the tiny run with some changed."""
    return changed(SETTINGS, **groups)


def valid_texts():
    """What the tiny run validates on."""
    return [text for _, text in CLASSIFICATION.read(resolve(SETTINGS), "valid")]


def files(folder, rows, name="train.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tiny_run):
    return tiny_run("classification")


def test_a_run_says_what_it_is(run):
    page = (run.folder / "README.md").read_text()
    assert f"accuracy {run.scores['accuracy']:.4f}" in page and "attentive_mlp" in page
    config = resolve(read_config(run.folder))
    assert config.data.fingerprint and config.model["width"] == 16
    assert config.task == "classification" and run.scores["texts"] == 60


def test_a_loaded_run_gives_the_same_answers_and_says_where_it_looked(run):
    texts = ["the film was exquisite", "dull", "a house by the river and quixotic words"]
    here, there = run.system.classify(texts), regard.load(run.folder).classify(texts)
    for mine, theirs, text in zip(here, there, texts, strict=True):
        assert mine.probabilities == theirs.probabilities
        assert sum(mine.probabilities.values()) == pytest.approx(1)
        assert mine.label == max(mine.probabilities, key=mine.probabilities.get)
        assert theirs.words == text.split()
        assert theirs.weights.shape == (1, len(theirs.words))
        torch.testing.assert_close(theirs.weights.sum(-1), torch.ones(1))
        (attended,) = theirs.attended.values()
        assert attended.weights.shape == (1, 1, len(theirs.words))


def test_answers_do_not_depend_on_their_company(run):
    texts = ["dull", "the film was exquisite and touching", "a house", "great great awful"] * 3
    together = run.system.classify(texts)
    for text, found in zip(texts[:4], together, strict=False):
        (alone,) = run.system.classify([text])
        assert alone.probabilities["positive"] == pytest.approx(found.probabilities["positive"], abs=1e-6)


SELF_ATTENTIVE = {
    "name": "self_attentive",
    "embedding": 8,
    "width": 8,
    "rows": 2,
    "compared": 4,
    "inner": 4,
}


@pytest.mark.parametrize("model", [SETTINGS["model"], SELF_ATTENTIVE], ids=lambda model: model["name"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, model):
    chosen = resolve(settings(training={"steps": 12, "save": 3}, model=model))
    fit(chosen, tmp_path / "whole")

    def stop(report):
        if report.step >= 8:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        fit(chosen, tmp_path / "parts", listen=stop)
    fit(chosen, tmp_path / "parts", resume=True)
    whole, parts = (load_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_pairs_of_texts(tmp_path):
    rows = [
        {"text": f"anna {a} bert {b}", "second": who, "label": a if who == "anna" else b}
        for a in ("good", "bad")
        for b in ("good", "bad")
        for who in ("anna", "bert")
    ] * 6
    path = files(tmp_path, rows)
    run = fit(
        resolve(settings(data={"corpus": None, "train": str(path)}, training={"steps": 4, "validate": 4})),
        tmp_path / "run",
    )
    system = regard.load(run.folder)
    (answer,) = system.classify([("anna good bert bad", "bert")])
    assert answer.label in ("good", "bad") and answer.weights.shape == (1, 4)
    with pytest.raises(ValueError, match=r"takes \(text, second text\)"):
        system.classify(["anna good"])
    found = CliRunner().invoke(
        app, ["classify", str(run.folder)], input="anna good\tanna\n\nbert bad\tbert\n"
    )
    assert found.exit_code == 0 and [bool(line) for line in found.stdout.splitlines()] == [True, False, True]
    assert "a tab" in CliRunner().invoke(app, ["classify", str(run.folder)], input="anna\n").output


def test_a_hierarchical_run_knows_where_sentences_end(tmp_path):
    rows = [{"text": f"it rained . {w} ! so it was", "label": w} for w in ("good", "bad")] * 10
    small = {"name": "hierarchical", "embedding": 8, "width": 8}
    data = {"corpus": None, "train": str(files(tmp_path, rows))}
    values = settings(data=data, training={"steps": 3}, model=small)
    run = fit(resolve(values), tmp_path / "run")
    system = regard.load(run.folder)
    (answer,) = system.classify(["it rained . good ! so it was"])
    words, sentences = (answer.attended[path].weights[0] for path in system.attention_paths["reader"])
    assert sentences.shape == (1, 3)
    assert ((words > 0).sum(-1)).tolist() == [3, 2, 3]
    torch.testing.assert_close(answer.weights, sentences @ words)


def test_vectors_are_what_words_begin_with(tmp_path):
    path = files(tmp_path, [{"text": GOOD, "label": 1}, {"text": BAD, "label": 0}] * 6)
    (tmp_path / "v.txt").write_text("good 1 2 3 4\nunheard 0 0 0 0\nbad 4 3 2 1\n")
    data = {"corpus": None, "train": str(path), "vectors": str(tmp_path / "v.txt")}
    said = []
    chosen = resolve(
        settings(data=data, model={"embedding": 4}, training={"steps": 1, "rate": 1e-9, "decay": 0.0})
    )
    run = fit(chosen, tmp_path / "run", say=said.append)
    (token,) = run.system.tokenizer.encode("good")
    torch.testing.assert_close(run.system.model.words.E.weight[token], torch.tensor([1.0, 2, 3, 4]))
    assert any("vectors of 2 of" in line for line in said)
    with pytest.raises(DataError, match="Set model.embedding=4"):
        fit(resolve(settings(data=data, model={"embedding": 5})), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("rows", "held_out", "words"),
    [
        ([{"text": GOOD, "label": 1}] * 4, None, "at least two different labels; they are all '1'"),
        ([{"text": GOOD, "label": 1}], None, "at least 2 are needed"),
        (
            [{"text": GOOD, "label": 1}, {"text": BAD, "label": 0}],
            [{"text": GOOD, "label": 2}],
            "line 1: the label '2' is not among",
        ),
        (
            [{"text": GOOD, "label": 1}, {"text": BAD, "label": 0}],
            [{"text": GOOD, "label": 1, "second": "x"}],
            "a second text came",
        ),
        ([{"text": GOOD, "label": 1}, {"text": " ", "label": 0}], None, "line 2: text is empty"),
    ],
)
def test_bad_data_leave_nothing_behind(tmp_path, rows, held_out, words):
    data = {"corpus": None, "train": str(files(tmp_path, rows))}
    if held_out:
        data["valid"] = str(files(tmp_path, held_out, "valid.jsonl"))
    with pytest.raises((DataError, RunError), match=words):
        fit(resolve(settings(data=data)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_text_longer_than_a_batch(tmp_path):
    with pytest.raises(SettingsError, match=r"training.tokens must be at least 24.*data\.longest"):
        fit(resolve(settings(training={"tokens": 20})), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"data": {"corpus": None}}, "data.train"),
        ({"data": {"train": "x.tsv"}}, "exclude"),
        ({"data": {"texts": 0}}, "data.texts"),
        ({"model": {"name": "attentive_bilstm", "width": 15}}, "model: width must be even"),
        ({"model": {"pairs": True}}, "model.pairs comes from the data"),
        ({"model": {"map": "argmax"}}, "no gradient"),
        ({"model": {"learn_alpha": True}}, "learn_alpha is for map"),
        ({"data": {"longest": 1024}, "model": LEARNED}, "model.longest must be more than data.longest=1024"),
        ({"model": {"wide": 3}}, "no setting model.wide; did you mean model.width"),
    ],
)
def test_bad_settings_are_named(groups, words):
    with pytest.raises(SettingsError, match=words):
        resolve(settings(**groups))


def test_an_empty_text_has_no_class(run):
    with pytest.raises(ValueError, match="text 2 is empty"):
        run.system.classify(["good", " "])
    with pytest.raises(TypeError, match="list of texts"):
        run.system.classify("good")
    assert run.system.classify([]) == []


def evaluate(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--device", "cpu"])


def test_evaluate_scores_a_file(run, tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{t.text}\t{t.label}\n" for t in valid_texts()))
    scores = json.loads(evaluate(run.folder, "--data", path, "--json").stdout)
    assert scores["accuracy"] == run.scores["accuracy"] and scores["texts"] == 60
    assert scores["by_class"].keys() == {"negative", "positive"}
    shown = evaluate(run.folder, "--data", path).stdout
    assert f"accuracy {run.scores['accuracy']:.4f}" in shown and "negative" in shown
    path.write_text("so good\tsplendid\n")
    for options, words in ((["--data", path], "'splendid' is not among"), ([], "--data")):
        refused = evaluate(run.folder, *options, "--json")
        assert refused.exit_code == 2 and refused.stdout == ""
        assert words in refused.stderr and len(refused.stderr.splitlines()) == 1


def test_commands(tmp_path):
    out = str(tmp_path / "run")
    options = [
        "--corpus",
        "agreement",
        "--map",
        "entmax",
        "--learn-alpha",
        "--model",
        "attentive_cnn",
        "--steps",
    ]
    small = [f"data.{k}={v}" for k, v in (("texts", 60), ("held_out", 20))] + [
        "model.embedding=8",
        "model.width=8",
    ]
    options = [*options, "2", "--out", out, "--device", "cpu", *[x for one in small for x in ("--set", one)]]
    trained = CliRunner().invoke(app, ["train", "classification", *options])
    assert trained.exit_code == 0 and "on 20 texts (validation)" in trained.stdout
    again = CliRunner().invoke(app, ["train", "classification", *options])
    assert again.exit_code == 2 and "--resume" in again.output
    done = CliRunner().invoke(app, ["train", "classification", *options, "--resume"])
    assert "nothing to resume" in done.stdout
    plain = CliRunner().invoke(app, ["classify", out], input="the key to the cabinets\n\nthe keys\n")
    assert [line in ("singular", "plural", "") for line in plain.stdout.splitlines()] == [True] * 3
    answer = CliRunner().invoke(app, ["classify", out, "--json"], input="the key\n")
    found = json.loads(answer.stdout)
    assert found["words"] == ["the", "key"] and len(found["weights"][0]) == 2
    other = CliRunner().invoke(app, ["classify", str(tmp_path)], input="x\n")
    assert other.exit_code == 2 and "holds no run" in other.output


def test_quality_of_a_hand_worked_case(run):
    said = [{"a": 0.9, "b": 0.1}, {"a": 0.6, "b": 0.4}, {"a": 0.2, "b": 0.8}, {"a": 0.7, "b": 0.3}]
    found = class_quality(said, ["a", "b", "b", "a"])
    assert found.accuracy == 0.75
    assert found.by_class["a"] == pytest.approx({"texts": 2, "precision": 2 / 3, "recall": 1, "f1": 0.8})
    assert found.by_class["b"] == pytest.approx({"texts": 2, "precision": 1, "recall": 0.5, "f1": 2 / 3})
    assert found.macro_f1 == pytest.approx((0.8 + 2 / 3) / 2)
    assert run.system.score(valid_texts()) == run.scores
