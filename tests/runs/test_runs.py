"""A run of any task from settings to a folder and back, and every way in which it can go wrong."""

import json
import shutil

import pytest
import torch

import regard
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError
from regard.core.settings import read_toml
from regard.data.padding import padded
from regard.decoding import rescore
from regard.runs import fit, load, open_system, resolve
from regard.runs.folder import finished, read_config
from regard.tasks import TASKS
from regard.training.log import read
from runs.tiny import EVERY, SETTINGS, changed

every_task = pytest.mark.parametrize("task", EVERY)  # those with runs of their own; contract/ walks over all
steps = pytest.mark.parametrize("task", [task for task in EVERY if "training" in EVERY[task]])  # by steps
of_examples = pytest.mark.parametrize("task", ["translation", "classification"])  # the others read one text
LABELS = ("no", "yes")
INPUTS = {
    "translation": ["", "  ", "ba be bi", "zorro"],
    "classification": ["the film was exquisite", "dull"],
    "alignment": [("ba be", "be ba"), ("", "ba")],
    "language": ["the key", ""],
}


@pytest.fixture(scope="module")
def run(tiny_run):
    return tiny_run("translation").folder


def written(folder, task, texts, **data):
    """Settings of a short run on files with these texts, which are written here."""
    if task == "classification":
        file = folder / "texts.tsv"
        file.write_text("".join(f"{text}\t{LABELS[i % 2]}\n" for i, text in enumerate(texts)))
        data = {"train": str(file), **data}
    elif task == "language":
        (folder / "text.txt").write_text("".join(text + "\n" for text in texts))
        data = {"train": str(folder / "text.txt"), **data}
    else:
        for name in ("source", "target"):
            (folder / name).write_text("".join(text + "\n" for text in texts))
        data = {"source": str(folder / "source"), "target": str(folder / "target"), **data}
    return changed(EVERY[task], data={"corpus": None, **data}, training={"steps": 4, "validate": 4})


def test_every_task_has_a_tiny_run():
    assert set(EVERY) <= set(TASKS)


@every_task
def test_the_folder_holds_all_that_is_needed(tiny_run, tmp_path, task):
    run = tiny_run(task)
    there = {file.name for file in run.folder.iterdir()}
    assert {"config.toml", "model.safetensors", "README.md"} <= there
    assert finished(run.folder)
    shutil.copytree(run.folder, tmp_path / "moved")
    one, two = load(run.folder).answer(INPUTS[task]), load(tmp_path / "moved").answer(INPUTS[task])
    assert [answer.said for answer in one] == [answer.said for answer in two]
    assert [answer.said for answer in run.system.answer(INPUTS[task])] == [answer.said for answer in one]
    assert resolve(read_config(run.folder)).task == task and run.system.task is TASKS[task]


@every_task
def test_the_page_of_a_run_says_what_it_is_and_how_good(tiny_run, task):
    run = tiny_run(task)
    page = (run.folder / "README.md").read_text()
    assert page.startswith(f"# A {TASKS[task].makes}\n")
    assert run.scores.line in page and EVERY[task]["data"]["corpus"] in page
    assert all(f"    {line}\n" in page for line in TASKS[task].usage)
    assert all(cell in page for row in run.scores.rows for cell in row)
    assert "not why it answered" in page
    if "model" in EVERY[task]:
        assert f"Its model is `{EVERY[task]['model']['name']}`" in page and "map `softmax`" in page


@steps
def test_the_log_and_the_fingerprint_are_there(tiny_run, task):
    run = tiny_run(task).folder
    assert {"log.jsonl", "checkpoints", "cache"} <= {file.name for file in run.iterdir()}
    assert any("validation_loss" in line for line in read(run / "log.jsonl"))
    for line in (run / "log.jsonl").read_text().splitlines():
        assert "step" in json.loads(line)
    settings = resolve(read_toml(run / "config.toml"))
    assert len(settings.data.fingerprint) == 64
    assert settings.model["width"] == EVERY[task]["model"]["width"]


def test_a_translator_leaves_its_tokenizer_and_says_nothing_to_nothing(run):
    assert (run / "tokenizer.json").exists() and "BLEU" in (run / "README.md").read_text()
    empty, blank, *_ = load(run).translate(INPUTS["translation"])
    assert empty.text == blank.text == ""


def test_regard_load_gives_text_scores_and_attention(run):
    system = regard.load(run)
    sources = sentences(5)
    found = system.translate(sources)
    for translation, source in zip(found, sources, strict=True):
        assert translation.source == source
        assert translation.score <= 0
        (path, attended), *_ = translation.attended.items()
        assert path in system.attention_paths["cross"]
        weights = attended.weights
        assert weights.shape[-2:] == (len(translation.target_pieces), len(translation.source_pieces))
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    source, lengths = padded([t.source_tokens for t in found], system.device)
    again = rescore(system.model, source, lengths, [t.target_tokens for t in found])
    assert [t.log_prob for t in found] == pytest.approx(again, abs=1e-3)


@pytest.mark.parametrize("name", ["bahdanau", "luong"])
def test_recurrent_models_show_every_step(tmp_path, name):
    settings = changed(SETTINGS, model={"name": name, "width": 16}, training={"steps": 3})
    fit(resolve(settings), tmp_path / "run")
    (found,) = load(tmp_path / "run").translate(["a b c d"])
    weights, m = found.attended["attention"].weights, len(found.target_pieces)
    assert weights.shape == (1, m, len(found.source_pieces))
    assert found.attended["attention"].scores.shape == weights.shape
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, m))


def sentences(count):
    """The first sentences of the tiny translator's validation pairs."""
    pairs = TASKS["translation"].read(resolve(SETTINGS), "valid")
    return [pair[0] for (_, pair), _ in zip(pairs, range(count), strict=False)]


def test_order_and_number_of_sentences_are_kept(run):
    system = load(run)
    sources = sentences(30)
    sources[7] = ""
    together = [t.text for t in system.translate(sources, beam=1)]
    assert together == [system.translate([s], beam=1)[0].text for s in sources]
    best = system.translations(sources[:3], best=3)
    assert [len(b) for b in best] == [3, 3, 3]
    with pytest.raises(TypeError, match=r"Use translate\(\[text\]\)"):
        system.translate("one string")


@of_examples
def test_no_example_is_learned_from_and_validated_on(tmp_path, task):
    every = [f"word {i}" for i in range(35)]
    settings = resolve(written(tmp_path, task, every, held_out=5))
    learned, held = ([one for _, one in TASKS[task].read(settings, part)] for part in ("train", "valid"))
    assert len(held) in range(3, 6)
    if task == "classification":
        found = [(one.text, one.label) for one in (*learned, *held)]
        assert sorted(found) == sorted((text, LABELS[i % 2]) for i, text in enumerate(every))
    else:
        assert sorted([*learned, *held]) == sorted((text, text) for text in every)


@every_task
def test_a_folder_with_a_run_is_not_begun_again(tiny_run, tmp_path, task):
    folder, values = tiny_run(task).folder, EVERY[task]
    with pytest.raises(RunError, match=r"already holds a run\. Continue it with --resume"):
        fit(resolve(values), folder)
    group, key = ("training", "rate") if "training" in values else ("alignment", "even")
    was = values[group].get(key, 0.1)
    with pytest.raises(RunError, match=rf"other settings \({group}.{key} was {was}, now 0.5\)"):
        fit(resolve(changed(values, **{group: {key: 0.5}})), folder, resume=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    with pytest.raises(RunError, match="holds something else than a run"):
        fit(resolve(values), tmp_path / "photos")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        fit(resolve(values), tmp_path / "file")


@steps
def test_changed_data_are_noticed(tmp_path, task):
    values = written(tmp_path, task, [f"{'x ' * (i % 7)}y" for i in range(60)])
    fit(resolve(values), tmp_path / "run")
    written(tmp_path, task, [f"{'z ' * (i % 5)}y" for i in range(60)])
    shutil.rmtree(tmp_path / "run" / "cache")
    with pytest.raises(RunError, match="the data of .* have changed"):
        fit(resolve(values), tmp_path / "run", resume=True)


@steps
def test_config_of_one_run_begins_another(tiny_run, tmp_path, task):
    values = read_config(tiny_run(task).folder)
    values["seed"] = 4  # other data, of which the fingerprint is another
    fit(resolve(changed(values, training={"steps": 1})), tmp_path / "run")
    assert read_config(tmp_path / "run")["data"]["fingerprint"] != values["data"]["fingerprint"]


@of_examples
def test_what_is_left_out_is_said(tmp_path, task):
    every = ["x " * (1 + i % 10) + "y" for i in range(100)]
    values = written(tmp_path, task, every, longest=9)
    said = []
    run = fit(resolve(values), tmp_path / "run", say=said.append)
    kinds = TASKS[task].examples
    for count, part in ((20, "training"), (0, "validation")):
        line = f"{count} {part} {kinds} are longer than data.longest=9 tokens and left out"
        assert (line in said) == bool(count)
    assert f"scoring 10 validation {kinds}" in said
    assert run.scores["sentences" if task == "translation" else "texts"] == 10


def test_empty_pairs_are_said(tmp_path):
    values = written(tmp_path, "translation", ["x y"] * 40)
    (tmp_path / "source").write_text("".join("x y\n" if i % 4 else "\n" for i in range(40)))
    said = []
    run = fit(resolve(values), tmp_path / "run", say=said.append)
    assert "8 training pairs are empty and left out" in said
    assert "2 validation pairs are empty and left out" in said
    assert run.scores["sentences"] == 2  # of 0, 10, 20, 30


@of_examples
def test_a_batch_that_is_too_small_leaves_no_folder_and_a_larger_one_begins_it(tmp_path, task):
    values = changed(EVERY[task], training={"tokens": 5})
    said = rf"training.tokens must be at least \d+, .*Or leave long {TASKS[task].examples} out: data.longest"
    for _ in range(2):
        with pytest.raises(SettingsError, match=said):
            fit(resolve(values), tmp_path / "run")
        assert list(tmp_path.iterdir()) == []
    run = fit(resolve(changed(values, training={"tokens": 600, "steps": 1})), tmp_path / "run")
    assert run.scores.figures


@every_task
def test_what_is_no_run_is_named(tiny_run, tmp_path, task):
    run = tiny_run(task).folder
    with pytest.raises(RunError, match="there is no folder"):
        load(tmp_path / "nothing")
    with pytest.raises(RunError, match=r"holds no run: config.toml is missing"):
        load(tmp_path)
    for name in ("half", "broken", "other"):
        shutil.copytree(run, tmp_path / name)
    (tmp_path / "half" / "model.safetensors").unlink()
    with pytest.raises(RunError, match="not trained to its end"):
        load(tmp_path / "half")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(WeightsError, match="cannot be read"):
        load(tmp_path / "broken")
    (tmp_path / "other" / "config.toml").write_text('task = "counting"\n')
    with pytest.raises(
        RunError, match="no task 'counting'; known are translation, classification, alignment"
    ):
        load(tmp_path / "other")


@every_task
def test_a_run_of_another_task_is_named(tiny_run, task):
    for other in TASKS:
        if other == task:
            assert open_system(tiny_run(task).folder, task=other).task is TASKS[task]
            continue
        said = rf"holds a {TASKS[task].makes}: a run of {other} is needed here \(regard train {other}\)"
        with pytest.raises(RunError, match=said):
            open_system(tiny_run(task).folder, task=other)


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ({}, SettingsError, r"must be given"),
        ({"task": "classification"}, SettingsError, r"must be given"),
        ({"data": {}}, SettingsError, r"data.source \(a file\), or data.corpus"),
        ({"data": {"corpus": "copy", "source": "x"}}, SettingsError, "exclude each other"),
        (
            {"task": "alignment", "data": {"corpus": "copy", "source": "x"}},
            SettingsError,
            "data.corpus and data.source exclude each other",
        ),
        (
            {"data": {"corpus": "copy"}, "model": {"name": "transfomer"}},
            UnknownNameError,
            "did you mean transformer",
        ),
        ({"data": {"corpus": "copy"}, "model": {"widht": 3}}, SettingsError, "did you mean model.width"),
        (
            {"data": {"corpus": "copy"}, "model": {"source_vocabulary": 3}},
            SettingsError,
            "model.source_vocabulary comes from the data and cannot be set",
        ),
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
        ({"task": "counting"}, RunError, "no task 'counting'"),
    ],
)
def test_impossible_settings_are_named(values, error, says):
    with pytest.raises(error, match=says):
        resolve(values)


def test_an_aligner_without_data_leaves_no_folder(tmp_path):
    with pytest.raises(
        SettingsError, match=r"data.source and data.target \(files\), or data.corpus, must be"
    ):
        fit(resolve({"task": "alignment"}), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
