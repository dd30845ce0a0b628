"""A run from settings to translations, and every way in which it can go wrong."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from regard.runs.translator import batches_by_length

import regard
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError
from regard.core.settings import read_toml
from regard.decoding import rescore
from regard.runs import fit, load, resolved
from regard.runs.folder import finished
from regard.training.log import read
from runs.tiny import SETTINGS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    fit(resolved(SETTINGS), folder)
    return folder


def test_the_folder_holds_all_that_is_needed(run, tmp_path):
    assert {
        "config.toml",
        "model.safetensors",
        "tokenizer.json",
        "log.jsonl",
        "README.md",
        "checkpoints",
    } <= {file.name for file in run.iterdir()}
    assert finished(run)
    shutil.copytree(run, tmp_path / "moved")
    texts = ["", "  "] + [
        " ".join(line.split()[:4]) for line in (run / "README.md").read_text().splitlines()[:5]
    ]
    one, two = load(run).translate(texts), load(tmp_path / "moved").translate(texts)
    assert [t.text for t in one] == [t.text for t in two]
    assert one[0].text == one[1].text == ""
    assert "BLEU" in (run / "README.md").read_text()
    assert read_toml(run / "config.toml")["data"]["fingerprint"]
    assert resolved(read_toml(run / "config.toml")).model["width"] == 32
    assert any("validation_loss" in line for line in read(run / "log.jsonl"))


def test_regard_load_gives_text_scores_and_attention(run):
    system = regard.load(run)
    sources = [pair[0] for pair, _ in zip(sentences(), range(5), strict=False)]
    found = system.translate(sources)
    for translation, source in zip(found, sources, strict=True):
        assert translation.source == source
        assert translation.score <= 0
        (path, attended), *_ = translation.attended.items()
        assert path in system.model.attention_paths["cross"]
        weights = attended.weights
        assert weights.shape[-2:] == (len(translation.target_pieces), len(translation.source_pieces))
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    tokens = [t.source_tokens for t in found]
    source, lengths = system._padded(tokens)
    again = rescore(system.model, source, lengths, [t.target_tokens for t in found])
    assert [t.log_prob for t in found] == pytest.approx(again, abs=1e-3)


@pytest.mark.parametrize("name", ["bahdanau", "luong"])
def test_recurrent_models_show_every_step(tmp_path, name):
    settings = {
        **SETTINGS,
        "model": {"name": name, "width": 16},
        "training": {**SETTINGS["training"], "steps": 3},
    }
    fit(resolved(settings), tmp_path / "run")
    (found,) = load(tmp_path / "run").translate(["a b c d"])
    weights, m = found.attended["attention"].weights, len(found.target_pieces)
    assert weights.shape == (1, m, len(found.source_pieces))
    assert found.attended["attention"].scores.shape == weights.shape
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, m))


def sentences():
    from regard.runs.sentences import Sentences

    return Sentences(resolved(SETTINGS).data, 3).valid()


def test_order_and_number_of_sentences_are_kept(run):
    system = load(run)
    sources = [pair[0] for pair, _ in zip(sentences(), range(30), strict=False)]
    sources[7] = ""
    together = [t.text for t in system.translate(sources, beam=1)]
    assert together == [system.translate([s], beam=1)[0].text for s in sources]
    best = system.translations(sources[:3], best=3)
    assert [len(b) for b in best] == [3, 3, 3]
    with pytest.raises(TypeError, match=r"Use translate\(\[text\]\)"):
        system.translate("one string")


def test_batches_by_length_hold_everything_once():
    lengths = [5, 0, 3, 9, 1, 30, 2]
    batches = list(batches_by_length(lengths, 12))
    assert sorted(i for batch in batches for i in batch) == [0, 2, 3, 4, 5, 6]
    assert all(len(b) * max(lengths[i] for i in b) <= 12 or len(b) == 1 for b in batches)


def test_no_pair_is_learned_from_and_validated_on(tmp_path):
    from regard.runs.sentences import Sentences

    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"{name} {i}\n" for i in range(35)))
    data = replace(
        resolved(SETTINGS).data,
        corpus=None,
        source=str(tmp_path / "a"),
        target=str(tmp_path / "b"),
        held_out=5,
    )
    sentences = Sentences(data, 1)
    learned, held = list(sentences.train()), list(sentences.valid())
    assert len(held) in range(3, 6)
    assert sorted(learned + held) == sorted((f"a {i}", f"b {i}") for i in range(35))


def test_a_folder_with_a_run_is_not_begun_again(run, tmp_path):
    with pytest.raises(RunError, match="already holds a run. Continue it with --resume"):
        fit(resolved(SETTINGS), run)
    changed = {**SETTINGS, "training": {**SETTINGS["training"], "rate": 0.5}}
    with pytest.raises(RunError, match=r"other settings \(training.rate was 0.003, now 0.5\)"):
        fit(resolved(changed), run, resume=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    with pytest.raises(RunError, match="holds something else than a run"):
        fit(resolved(SETTINGS), tmp_path / "photos")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        fit(resolved(SETTINGS), tmp_path / "file")


def test_changed_data_are_noticed(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"{'x ' * (i % 7)}y\n" for i in range(60)))
    values = {
        **SETTINGS,
        "data": {"source": str(tmp_path / "a"), "target": str(tmp_path / "b"), "tokens": "word"},
    }
    values["training"] = {**SETTINGS["training"], "steps": 4, "validate": 4}
    fit(resolved(values), tmp_path / "run")
    (tmp_path / "a").write_text("".join(f"{'z ' * (i % 5)}y\n" for i in range(60)))
    shutil.rmtree(tmp_path / "run" / "cache")
    with pytest.raises(RunError, match="the data of .* have changed"):
        fit(resolved(values), tmp_path / "run", resume=True)


def test_what_is_no_run_is_named(run, tmp_path):
    with pytest.raises(RunError, match="there is no folder"):
        load(tmp_path / "nothing")
    with pytest.raises(RunError, match=r"holds no run: config.toml is missing"):
        load(tmp_path)
    shutil.copytree(run, tmp_path / "half")
    (tmp_path / "half" / "model.safetensors").unlink()
    with pytest.raises(RunError, match="not trained to its end"):
        load(tmp_path / "half")
    shutil.copytree(run, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(WeightsError, match="cannot be read"):
        load(tmp_path / "broken")


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ({}, SettingsError, "data must be given"),
        ({"data": {}}, SettingsError, r"data.source and data.target \(files\), or data.corpus"),
        ({"data": {"corpus": "copy", "source": "x"}}, SettingsError, "exclude each other"),
        (
            {"data": {"corpus": "copy"}, "model": {"name": "transfomer"}},
            UnknownNameError,
            "did you mean transformer",
        ),
        ({"data": {"corpus": "copy"}, "model": {"widht": 3}}, SettingsError, "did you mean model.width"),
        (
            {"data": {"corpus": "copy"}, "training": {"steps": 0}},
            SettingsError,
            "training.steps must be at least 1",
        ),
        (
            {"data": {"corpus": "copy"}, "decoding": {"beam": 0}},
            SettingsError,
            "decoding.beam must be at least 1",
        ),
    ],
)
def test_impossible_settings_are_named(values, error, says):
    with pytest.raises(error, match=says):
        resolved(values)


def test_json_of_the_log_is_one_object_per_line(run):
    for line in (run / "log.jsonl").read_text().splitlines():
        assert "step" in json.loads(line)
