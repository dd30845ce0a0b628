"""Texts explained by a whole system, and the command that does it."""

import json

import pytest
import torch
from typer.testing import CliRunner

from explanations.toys import classifier
from regard.cli import app
from regard.core.errors import RunError
from regard.data import Tokenizer
from regard.data.labelled import Classes
from regard.explanations import METHODS, explain, explain_texts
from regard.tasks.classification import CLASSIFICATION, TextParts
from regard.tasks.classifier import Classifier
from tasks.translators import translator

LINES = ["a gripping , witty film", "a dull film", "witty and gripping", "[bold]dull[/bold] and long"]
TEXT = "a gripping , witty film"


def system(kind="word", pairs=False):
    tokenizer = Tokenizer.train(LINES, kind, 280 if kind == "bpe" else 13)
    model = classifier("attentive_bilstm", vocabulary=len(tokenizer), pairs=pairs)
    settings = CLASSIFICATION.resolve({"data": {"corpus": "sentiment"}})
    return Classifier(model, TextParts(tokenizer, Classes(["bad", "good", "so so"], pairs)), settings)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A folder that is taken for a trained run."""
    monkeypatch.setattr("regard.cli.explain.open_run", lambda folder, device: system())
    return str(tmp_path)


def told(*arguments):
    done = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def complaint(*arguments):
    done = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1, done.output
    return done.stderr


@pytest.mark.parametrize("method", ["attention", "leave_one_out", "gradient_x_input"])
def test_pieces_of_words_add_up(method):
    one = system("bpe")
    for explanation, text in zip(explain_texts(one, LINES, method=method), LINES, strict=True):
        assert explanation.words == text.split() and explanation.text == text
        tokens = one.tokenizer.encode(text)
        assert len(tokens) > len(explanation.words)
        scores = explain(one.model, torch.tensor([tokens]), method=method)[0]
        assert sum(explanation.scores) == pytest.approx(float(scores.sum()))
        assert explanation.label == one.classify([text])[0].label


def test_words_that_are_tokens_keep_their_scores():
    one = system()
    (found,) = explain_texts(one, ["a  dull unheard-of film"], method="attention")
    assert found.words == ["a", "dull", "unheard-of", "film"]
    assert found.scores == pytest.approx(one.classify([found.text])[0].weights.mean(0).tolist())


def test_a_label_can_be_asked_for():
    one = system()
    scores = {
        label: explain_texts(one, [TEXT], method="gradient_x_input", label=label)[0].scores
        for label in (None, *one.labels)
    }
    assert scores[None] == scores[one.classify([TEXT])[0].label]
    assert scores["bad"] != scores["good"]
    with pytest.raises(ValueError, match="no label 'fine'. Known: bad, good, so so"):
        explain_texts(one, [TEXT], label="fine")


def test_pairs():
    one = system(pairs=True)
    found = [
        explain_texts(one, [(TEXT, second)], method="gradient")[0].scores for second in ("dull", "witty")
    ]
    assert len(found[0]) == 5 and found[0] != found[1]


def test_the_command_shows_words_and_scores(run):
    shown = told(run, "--text", TEXT, "--method", "attention", "--method", "leave_one_out")
    lines = [line for line in shown.splitlines() if not line.startswith("░")]
    assert lines[1].split() == ["word", "attention", "leave_one_out"]
    assert [line.split()[0] for line in lines[2:]] == TEXT.split()
    (expected,) = explain_texts(system(), [TEXT], method="attention")
    assert float(lines[2].split()[1]) == pytest.approx(expected.scores[0], rel=6e-3)
    assert "█" in shown and "…" not in shown


@pytest.mark.parametrize("by", ["delete", "zero", "unknown"])
def test_the_command_prints_json(run, by):
    rows = told(run, "--text", TEXT, "--method", "leave_one_out", "--by", by, "--json").splitlines()
    (row,) = map(json.loads, rows)
    (expected,) = explain_texts(system(), [TEXT], method="leave_one_out", by=3 if by == "unknown" else by)
    assert row == vars(expected)


def test_held_attention_is_for_gradients_alone(run):
    shown = [
        told(run, "--text", TEXT, "--method", "gradient", "--method", "rollout", "--json", *held)
        for held in ([], ["--hold-attention"])
    ]
    (free, rolled), (held, same) = ([json.loads(row) for row in one.splitlines()] for one in shown)
    assert free["scores"] != held["scores"] and rolled == same


def test_the_command_draws(run, tmp_path):
    names = [name for name in METHODS if name != "integrated_gradients"]
    methods = [part for name in names for part in ("--method", name)]
    told(run, "--text", "[bold]dull[/bold] <script>", *methods, "--out", tmp_path / "words.html")
    page = (tmp_path / "words.html").read_text(encoding="utf-8")
    assert "leave_one_out" in page and "dull[/bold] <script>" not in page


def test_words_with_markup_are_words(run):
    assert "[bold]dull[/bold]" in told(run, "--text", "[bold]dull[/bold] film")


def test_the_command_complains_in_one_line(run, tmp_path, monkeypatch):
    assert 'no method "rolout"; did you mean rollout?' in complaint(run, "--text", TEXT, "--method", "rolout")
    assert "no label 'fine'" in complaint(run, "--text", TEXT, "--label", "fine")
    assert 'no way "drop". Known: delete, zero, unknown' in complaint(run, "--text", TEXT, "--by", "drop")
    assert "empty" in complaint(run, "--text", " ")
    assert "has one token" in complaint(run, "--text", "film", "--method", "leave_one_out")
    assert "takes one text" in complaint(run, "--text", TEXT, "--second", TEXT)
    assert "words.doc" in complaint(run, "--text", TEXT, "--out", tmp_path / "words.doc")
    monkeypatch.setattr("regard.cli.explain.open_run", lambda folder, device: translator("bahdanau"))
    assert "a translator does not predict one class" in complaint(run, "--text", "eight")


def test_what_has_no_class_of_a_text_is_not_explained():
    with pytest.raises(RunError, match="a translator does not predict one class for a text"):
        explain_texts(translator("bahdanau"), ["eight"])
    assert explain_texts(system(), []) == []
