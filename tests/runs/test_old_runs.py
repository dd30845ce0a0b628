"""Runs that earlier versions wrote: they load, or are refused in a sentence that says what to do."""

import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import regard
from data.rows import old_corpus
from regard.analyses import training_counts
from regard.cli import app
from regard.core.errors import RunError, SettingsError
from regard.core.settings import read_toml, toml
from regard.runs import fit, resolve
from runs.tiny import CLASSIFIER, SETTINGS, changed

OLD_ALIGNER = """\
task = "aligner"

[aligner]
rounds = 2
first_rounds = 2
empty = 0.05
even = 0.1
forms = 2.0
likeness = 10.0
"""
TEXTS = ["ba be bi", "zorro ba"]


def run(*arguments, given=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=given, prog_name="regard")


def old_cache(folder: Path) -> None:
    """Encoded pairs as they were before fields had names."""
    shutil.rmtree(folder / "cache")
    for part in ("train", "valid"):
        old_corpus(folder / "cache" / part)


def rewritten(folder: Path, change) -> None:
    """config.toml with something changed."""
    values = read_toml(folder / "config.toml")
    (folder / "config.toml").write_text(toml(change(values)), encoding="utf-8")


@pytest.fixture
def translator(tiny_run, tmp_path):
    """A translator as it was written before; its config.toml need not name a task."""
    shutil.copytree(tiny_run("translation").folder, tmp_path / "old")
    old_cache(tmp_path / "old")
    rewritten(tmp_path / "old", lambda values: {k: v for k, v in values.items() if k != "task"})
    return tmp_path / "old"


def test_an_old_translator_loads_and_says_the_same(tiny_run, translator):
    now, then = tiny_run("translation").system, regard.load(translator)
    for mine, theirs in zip(now.translate(TEXTS), then.translate(TEXTS), strict=True):
        assert (mine.text, mine.log_prob) == (theirs.text, theirs.log_prob)
    assert run("translate", translator, given="ba be\n").exit_code == 0
    assert training_counts(translator) is None
    done = run(
        "train", "translation", "--config", translator / "config.toml", "--out", translator, "--resume"
    )
    assert done.exit_code == 0 and "there is nothing to resume" in done.stdout


def test_an_old_run_that_is_not_finished_is_refused_and_its_settings_begin_another(translator, tmp_path):
    (translator / "README.md").unlink()
    there = sorted(translator.rglob("*"))
    command = ["train", "translation", "--config", translator / "config.toml", "--device", "cpu"]
    done = run(*command, "--out", translator, "--resume")
    assert done.exit_code == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "was begun by an earlier version of regard, and its training cannot go on. Begin it anew" in line
    assert sorted(translator.rglob("*")) == there
    again = run(*command, "--steps", 1, "--out", tmp_path / "new")
    assert again.exit_code == 0, again.output
    assert "fingerprint" in (tmp_path / "new" / "config.toml").read_text()


def test_an_old_run_cannot_be_pruned_and_says_so(translator):
    done = run("heads", translator, "--prune", 0.1, "--steps", 1)
    assert done.exit_code == 2
    assert "was begun by an earlier version of regard" in done.stderr.splitlines()[-1]


def test_an_old_classifier_with_remedies_loads(tmp_path):
    values = changed(CLASSIFIER, regularizers={"tie": 0.5, "mlm": 0.25}, training={"steps": 2, "validate": 2})
    system = fit(resolve(values), tmp_path / "run").system
    assert system.settings.regularizers.strengths == {"tie": 0.5, "mlm": 0.25}
    rewritten(
        tmp_path / "run",
        lambda found: {"remedy" if name == "regularizers" else name: group for name, group in found.items()},
    )
    assert "[remedy]" in (tmp_path / "run" / "config.toml").read_text()
    old_cache(tmp_path / "run")
    again = regard.load(tmp_path / "run")
    assert again.settings.regularizers == system.settings.regularizers
    texts = ["the film was exquisite", "dull"]
    for mine, theirs in zip(system.classify(texts), again.classify(texts), strict=True):
        assert mine.probabilities == theirs.probabilities
        torch.testing.assert_close(mine.weights, theirs.weights)
    with pytest.raises(RunError, match="was begun by an earlier version of regard"):
        fit(resolve(values), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "cache").exists()


def test_new_options_come_on_top_of_an_old_group(tmp_path):
    config, out = tmp_path / "old.toml", tmp_path / "run"
    values = changed(CLASSIFIER, remedy={"tie": 0.5, "mlm": 0.25}, training={"steps": 1})
    config.write_text(toml(values), encoding="utf-8")
    done = run("train", "classification", "--config", config, "--tie", 2, "--out", out, "--device", "cpu")
    assert done.exit_code == 0, done.output
    found = read_toml(out / "config.toml")["regularizers"]
    assert (found["tie"], found["mlm"]) == (2, 0.25)


def test_an_old_aligner_loads_and_aligns_the_same(tiny_run, tmp_path):
    now, folder = tiny_run("alignment"), tmp_path / "old"
    shutil.copytree(now.folder, folder)
    (folder / "config.toml").write_text(OLD_ALIGNER)
    pairs = [("ba be bi", "bi be ba"), ("zorro ba", "ba zorro")]
    then = regard.load(folder)
    assert then.align(pairs).links == now.system.align(pairs).links
    assert then.settings.alignment == now.system.settings.alignment
    assert then.task.name == "alignment"
    done = run("train", "aligner", "--config", folder / "config.toml", "--out", folder, "--resume")
    assert done.exit_code == 0 and "there is nothing to resume" in done.stdout
    (folder / "config.toml").write_text(OLD_ALIGNER.replace("even = 0.1", "even = 1"))
    with pytest.raises(SettingsError, match="even must be between 0 and 1"):
        regard.load(folder)


def test_the_old_names_of_settings_mean_the_new_ones():
    values = {"task": "aligner", "data": {"corpus": "copy"}}
    for given in ({"aligner": {"rounds": 3}}, {"rounds": 3}, {"alignment": {"rounds": 9}, "rounds": 3}):
        settings = resolve({**values, **given})
        assert settings.task == "alignment" and settings.alignment.rounds == 3
    both = {"remedy": {"tie": 1.0, "mlm": 1.0}, "regularizers": {"mlm": 2.0}}
    assert resolve({**CLASSIFIER, **both}).regularizers.strengths == {"tie": 1.0, "mlm": 2.0}
    assert resolve(SETTINGS) == resolve({**SETTINGS, "task": "translation"})
