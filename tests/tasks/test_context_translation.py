"""`regard train translation --context K`: documents in files; translate, evaluate, view; refusals."""

import json

import pytest
import torch
from typer.testing import CliRunner

from regard.cli import app
from regard.core.errors import RunError
from regard.inspection import inspect
from regard.runs import load
from regard.tasks.translator import Translator

SETTINGS = {
    "data.tokens": "word", "data.held_out": 2, "model.width": 16, "model.inner": 16, "model.heads": 2,
    "model.layers": 1, "training.steps": 3, "training.tokens": 60,
}  # fmt: skip


def call(*arguments, **more):
    return CliRunner().invoke(app, list(map(str, arguments)), prog_name="regard", **more)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    for name, lines in {
        "en": ["the dog sleeps", "it is old", "", "the cat waits", "it is new", "it sees the dog"] * 4,
        "de": ["der Hund", "er", "", "die Katze", "sie ist neu", "sie sieht den Hund"] * 4,
    }.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    sets = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    done = call(
        "train", "translation", "--source", folder / "en", "--target", folder / "de",
        "--context", 1, "--out", folder / "run", *sets,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder / "run"


def test_a_document_is_read_line_by_line(run):
    system = load(run)
    read = system.reading()
    lines = ["the dog sleeps", "it is old", "", "it is old"]
    asked = [read(line) for line in lines]
    assert asked == ["the dog sleeps", "the dog sleeps\nit is old", "", "it is old"]
    done = call("translate", run, "--json", "--beam", 2, input="\n".join(lines) + "\n")
    assert done.exit_code == 0, done.output
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["text"] for one in said] == [one.text for one in system.translate(asked, beam=2)]
    assert said[1]["source_pieces"] == ["the", "dog", "sleeps", "</s>", "it", "is", "old"]
    assert said[2]["text"] == "" and abs(said[1]["log_prob"] - said[3]["log_prob"]) > 1e-6


def test_lines_that_are_not_read_change_nothing(run):
    near, far, ended, nothing = load(run).translate(
        ["the dog sleeps\nit is old", "the cat waits\nthe dog sleeps\nit is old", "the dog sleeps\n", "\n"]
    )
    assert far.text == near.text and abs(far.log_prob - near.log_prob) < 1e-5
    assert [(one.text, one.source_tokens) for one in (ended, nothing)] == [("", [])] * 2


def test_a_line_that_has_no_answer_is_context_of_the_next_alone(run, monkeypatch):
    """Lines of a block are answered again one by one if it fails: with the same lines before them."""
    lines, asked, translations = (
        ["the dog sleeps", "it is old", "no", "it is new"],
        [],
        Translator.translations,
    )

    def failing(self, sources, **options):
        if sources:  # without any the command asks whether its options are right
            asked.append(list(sources))
        if any(source.endswith("no") for source in sources):
            raise ValueError("no answer.")
        return translations(self, sources, **options)

    monkeypatch.setattr(Translator, "translations", failing)
    done = call("translate", run, "--beam", 1, input="\n".join(lines) + "\n")
    assert done.exit_code == 2 and "line 3: no answer." in done.stderr
    assert asked[0] == [one for some in asked[1:] for one in some]
    assert asked[0] == ["the dog sleeps", "the dog sleeps\nit is old", "it is old\nno", "no\nit is new"]


def test_evaluation_reads_documents(run):
    done = call("evaluate", run, "--source", run.parent / "en", "--target", run.parent / "de", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["sentences"] == 20  # of 24 lines, four end a document


def test_views(run, tmp_path):
    text = "the dog sleeps\nit is old"
    for kind in ("heat_map", "context"):
        file = tmp_path / f"{kind}.html"
        done = call("view", run, "--text", text, "--kind", kind, "--out", file)
        assert done.exit_code == 0, done.output
        assert "sleeps" in file.read_text(encoding="utf-8")
    done = call("view", run, "--text", "it is old", "--kind", "context", "--out", tmp_path / "x.html")
    assert done.exit_code == 2 and "several lines" in done.stderr


def test_words_before_can_be_masked_and_deleted(run):
    system = load(run)
    text = "the dog sleeps\nit is old"
    plain, masked, deleted = (
        inspect(system, text, words=words, how=how)
        for words, how in (((), "none"), ((1,), "mask"), ((1, 2), "delete"))
    )
    assert plain.source == ["the", "dog", "sleeps", "it", "is", "old"]
    assert deleted.source == ["the", "it", "is", "old"] and deleted.read.text == "the\nit is old"
    assert masked.log_prob != plain.log_prob
    torch.testing.assert_close(plain.matrix()[:, :3], torch.zeros_like(plain.matrix()[:, :3]))


def test_the_rest_is_refused_in_a_sentence(run):
    system = load(run)
    with pytest.raises(RunError, match=r"\(context = 1\) does not align words"):
        system.align([("it", "es")])
    with pytest.raises(RunError, match="is not explained or audited"):
        system.case([("it", "es")])
    with pytest.raises(RunError, match="takes no coverage penalty"):
        system.translations(["it"], coverage=0.2)
    done = call("train", "translation", "--corpus", "copy", "--context", -1, "--out", run.parent / "no")
    assert done.exit_code == 2 and "--context must be at least 1" in done.stderr
    done = call(
        "train", "translation", "--corpus", "copy", "--model", "luong", "--context", 1,
        "--out", run.parent / "no",
    )  # fmt: skip
    assert done.exit_code == 2 and "context" in done.stderr
    done = call(
        "train", "translation", "--corpus", "pronouns", "--context", 1, "--set", "model.positions=learned",
        "--set", "data.longest=10", "--set", "model.longest=20", "--out", run.parent / "no",
    )  # fmt: skip
    assert done.exit_code == 2 and "model.longest must be at least 21" in done.stderr
    done = call(
        "train", "translation", "--corpus", "copy", "--set", "model.positions=learned",
        "--set", "data.longest=10", "--set", "model.longest=10", "--out", run.parent / "no",
    )  # fmt: skip
    assert done.exit_code == 2 and "model.longest must be at least 11" in done.stderr
    done = call(
        "view",
        run,
        "--text",
        "the dog",
        "--kind",
        "context",
        "--links",
        "0-0",
        "--out",
        run.parent / "a.html",
    )
    assert done.exit_code == 2 and "--links" in done.stderr
