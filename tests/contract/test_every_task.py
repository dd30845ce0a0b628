"""What holds for every task: one walk over TASKS. A third task is one file, a model and one line, as here."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import regard
from commands import run
from regard.core.errors import RunError
from regard.runs import fit, resolve
from regard.tasks import TASKS, WHERE
from regard.training import Ended, Interrupted, Team
from regard.views.png import data_url
from training.together import together

TOY = {"vowels": "contract.toy.vowels:VOWELS"}  # the one line of the toy task

PAIRS = [("a b c", "a b c"), ("b a", "b a")]
DRAWN = [data_url(np.full((6, 8, 3), shade, np.uint8)) for shade in (0, 90, 200)]
TINY = {  # for each task: settings of a run of seconds, what is wrong with them, inputs, files to evaluate on
    "translation": {
        "settings": {
            "seed": 3,
            "data": {"corpus": "copy", "pairs": 120, "held_out": 12, "tokens": "word", "vocabulary": 60},
            "model": {"name": "transformer", "width": 16, "inner": 16, "layers": 1, "heads": 2},
            "training": {"steps": 12, "tokens": 128, "warmup": 4, "validate": 4, "save": 3, "report": 2},
            "decoding": {"beam": 2, "most": 12},
        },
        "wrong": "training.tokens=8",
        "short": "data.longest=7",
        "inputs": ["ba da", "", "go"],
    },
    "classification": {
        "settings": {
            "seed": 3,
            "data": {"corpus": "agreement", "texts": 120, "held_out": 20},
            "model": {"name": "attentive_bilstm", "embedding": 8, "width": 8},
            "training": {"steps": 12, "tokens": 256, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=8",
        "short": "data.longest=12",
        "inputs": ["the stories with the author", "the road"],
    },
    "alignment": {
        "settings": {"data": {"corpus": "dictionary", "pairs": 60}, "alignment": {"rounds": 1}},
        "wrong": "alignment.empty=2",
        "short": None,
        "inputs": PAIRS,
    },
    "language": {
        "settings": {
            "seed": 3,
            "data": {"corpus": "grammar", "sentences": 150},
            "model": {"name": "gpt", "width": 16, "inner": 16, "layers": 2, "heads": 2},
            "training": {"steps": 12, "tokens": 128, "segment": 16, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=8",
        "short": None,
        "inputs": ["the old key", "", "near the"],
    },
    "image": {
        "settings": {
            "seed": 3,
            "data": {"pictures": 60, "held_out": 8},
            "model": {"name": "image_attention", "widths": "4,8", "blocks": "1,0"},
            "training": {"steps": 12, "tokens": 8, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=0",
        "short": None,
        "inputs": DRAWN,
    },
    "caption": {
        "settings": {
            "seed": 3,
            "data": {"pictures": 60, "held_out": 8},
            "model": {
                "name": "show_attend_tell",
                "widths": "4,8",
                "blocks": "1,0",
                "state": 16,
                "embedding": 8,
            },
            "training": {"steps": 12, "tokens": 64, "validate": 4, "save": 3, "report": 2},
            "decoding": {"beam": 2, "most": 12},
        },
        "wrong": "training.tokens=2",
        "short": "data.longest=7",
        "inputs": DRAWN,
    },
    "visual_question": {
        "settings": {
            "seed": 3,
            "data": {"pictures": 60, "held_out": 4},
            "model": {"name": "stacked_attention", "widths": "4,8", "blocks": "1,0", "state": 16},
            "training": {"steps": 12, "tokens": 80, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=2",
        "short": "data.longest=8",
        "inputs": [(one, "what shape is above the red circle ?") for one in DRAWN],
    },
    "answering": {
        "settings": {
            "seed": 3,
            "data": {"corpus": "stories", "questions": 120, "held_out": 20},
            "model": {"name": "memory_network", "width": 8, "hops": 2},
            "training": {"steps": 12, "examples": 16, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "data.memory=0",
        "short": None,
        "inputs": [
            ("John moved to the park. Anna got the hat.", "Where is John?"),
            (["Mary went to the garden.", "Mary took the key."], "Where is the key?"),
        ],
    },
    "algorithm": {
        "settings": {
            "seed": 3,
            "data": {"corpus": "copy", "bits": 3, "longest": 3, "sequences": 120, "held_out": 20},
            "model": {"name": "turing_machine", "width": 8, "locations": 8, "memory": 4},
            "training": {"steps": 12, "examples": 16, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=1",
        "short": None,
        "inputs": ["010 111", "", "001"],
    },
    "pointing": {
        "settings": {
            "seed": 3,
            "data": {"corpus": "convex_hull", "problems": 120, "held_out": 20},
            "model": {"name": "pointer_network", "width": 8, "layers": 1, "heads": 2},
            "training": {"steps": 12, "tokens": 256, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=4",
        "short": None,
        "inputs": ["0.1,0.2 0.5,0.9 0.7,0.1 0.4,0.4", "", "0.3,0.3"],
    },
    "reading": {
        "settings": {
            "seed": 3,
            "data": {"corpus": "spans", "questions": 120, "held_out": 20},
            "model": {"name": "dynamic_coattention", "embedding": 8, "width": 8, "decoder": 8},
            "training": {"steps": 12, "tokens": 512, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=8",
        "short": "data.longest=45",
        "inputs": [
            ("Anna sold nine maps near the river on Monday .", "Who sold nine maps ?"),
            ("On Sunday Leo lost two old coats .", "What did Leo lose ?"),
        ],
    },
    "vowels": {
        "settings": {
            "seed": 3,
            "training": {"steps": 12, "tokens": 64, "validate": 4, "save": 3, "report": 2},
        },
        "wrong": "training.tokens=4",
        "short": "data.longest=6",
        "inputs": ["abe", "", "ooo"],
    },
}
GENERATES = {"algorithm"}  # draws what it is evaluated on: no file is needed
every_task = pytest.mark.parametrize("name", [*TASKS, *TOY])


@pytest.fixture(scope="module", autouse=True)
def toy():
    """The toy task is there for these tests alone."""
    WHERE.entries.update(TOY)
    yield
    del WHERE.entries["vowels"]


def tiny(name: str) -> dict:
    assert name in TINY, f"task {name!r} is not in TINY: give it settings of a run of seconds here"
    return TINY[name]


def typed(name: str) -> tuple[str, list[str]]:
    """What a person types: the first input that is one text, or two, and options for the second."""
    text = next((one for one in tiny(name)["inputs"] if isinstance(one, str)), None)
    if text is not None:
        return text, []
    text, second = next(one for one in tiny(name)["inputs"] if isinstance(one[0], str))
    return text, ["--second", second]


def values(name: str) -> dict:
    return {"task": name, **tiny(name)["settings"]}


def train(name: str, out: Path, *more: str):
    given = []
    for group, settings in tiny(name)["settings"].items():
        if isinstance(settings, dict):
            for key, value in settings.items():
                given += ["--set", f"{group}.{key}={value}"]
        else:
            given += ["--set", f"{group}={settings}"]
    return run("train", name, "--out", out, "--device", "cpu", *given, *more)


def refused(done) -> str:
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("regard")]
    assert "Traceback" not in done.output
    return line


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A trained run of each task, made when it is first asked for."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "run"
            done = train(name, made[name])
            assert done.exit_code == 0, done.output
        return made[name]

    return folder


@pytest.fixture
def system(folders, name):
    return regard.load(folders(name))


@every_task
def test_a_task_says_what_it_is(name):
    task = TASKS[name]
    assert task.name == name
    for fact in (task.says, task.makes, task.examples, task.unit):
        assert fact and fact == fact.strip()
    assert all("DIR" in line for line in task.usage)
    assert task.default_model in task.models or not task.models


@every_task
def test_its_command_has_help_with_all_its_choices(name):
    help_ = " ".join(run("train", name, "--help").stdout.split())
    assert "--out" in help_ and "--resume" in help_
    for model in TASKS[name].models:
        assert model in help_
    assert name in run("train", "--help").stdout


@every_task
def test_a_bad_setting_is_one_line_and_leaves_no_folder_and_a_corrected_command_then_works(name, tmp_path):
    out = tmp_path / "run"
    for wrong in (tiny(name)["wrong"], "nonsense.key=1", "data.corpus=nonsense"):
        line = refused(train(name, out, "--set", wrong))
        assert line.startswith(f"regard train {name}: ")
        assert not out.exists()
    done = train(name, out)
    assert done.exit_code == 0, done.output
    assert (out / "model.safetensors").exists()


@every_task
def test_an_empty_folder_of_the_users_own_stays_when_a_start_fails(name, tmp_path):
    refused(train(name, tmp_path, "--set", tiny(name)["wrong"]))
    assert tmp_path.is_dir() and not any(tmp_path.iterdir())


@every_task
def test_examples_that_are_too_long_are_counted_and_said(name, tmp_path):
    if tiny(name)["short"] is None:
        assert not TASKS[name].longest(resolve(values(name)))
        return
    done = train(name, tmp_path / "run", "--set", tiny(name)["short"])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stderr.splitlines() if "training" in line and "are longer than" in line]
    key, most = tiny(name)["short"].split("=")
    assert int(line.split()[0].replace(",", "")) > 0
    assert f"{key}={most} tokens and left out" in line and TASKS[name].examples in line


@every_task
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(name, folders, tmp_path):
    folder, settings = tmp_path / "run", resolve(values(name))
    if TASKS[name].models:

        def stop(report):
            if report.step >= 6:
                raise Interrupted("here")

        with pytest.raises(Interrupted):
            fit(settings, folder, listen=stop)
        assert not (folder / "model.safetensors").exists()
    fit(settings, folder, resume=True)
    whole = folders(name)
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert sorted(f.name for f in folder.iterdir()) == sorted(f.name for f in whole.iterdir())


@every_task
def test_a_finished_run_is_not_begun_again_and_other_settings_are_refused(name, folders):
    folder = folders(name)
    assert "already holds a run" in refused(train(name, folder))
    if TASKS[name].models:
        assert "nothing to resume" in train(name, folder, "--resume").stdout
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match="was begun with other settings"):
        fit(resolve({**values(name), "seed": 99}), folder, resume=True)
    assert (folder / "model.safetensors").read_bytes() == before


@every_task
def test_a_run_can_be_moved_and_says_what_it_is(name, folders, tmp_path):
    moved = shutil.copytree(folders(name), tmp_path / "moved")
    text = (moved / "README.md").read_text()
    assert text.startswith(f"# A {TASKS[name].makes}\n") and "config.toml" in text
    assert type(regard.load(moved)) is type(regard.load(folders(name)))


@every_task
def test_answers_come_in_order_and_no_input_gives_none(name, system):
    inputs = tiny(name)["inputs"]
    together_, apart = system.answer(inputs), [system.answer([one])[0] for one in inputs]
    assert [one.said for one in together_] == [one.said for one in apart]
    assert len(together_) == len(inputs)
    assert system.answer([]) == []
    for one in together_:
        assert one.log_prob is None or one.log_prob <= 0
        assert not one.probabilities or sum(one.probabilities.values()) == pytest.approx(1)


@every_task
def test_its_attentions_are_found_by_role_and_recording_changes_nothing(name, system):
    paths = [path for several in system.attention_paths.values() for path in several]
    if not paths:
        assert system.layers == [] and system.heads == 0
        return
    inputs = tiny(name)["inputs"]
    before = [one.said for one in system.answer(inputs)]
    with regard.record(system.model, paths) as seen:
        assert [one.said for one in system.answer(inputs)] == before
    assert any(calls for calls in seen.values())
    answer = system.answer(inputs[:1])[0]
    read = system.segments(inputs[0] if isinstance(inputs[0], str) else inputs[0][0])
    written = system.answer_segments(answer)
    for weights in system.weights(answer):
        assert weights.shape[0] == system.heads
        assert weights.shape[-1] == len(read.tokens)
        assert weights.shape[-2] >= len(written.tokens)
        assert bool((weights >= 0).all())
    if not system.masked_paths:
        return
    with system.masking([0]):
        assert all(float(w[..., 0].abs().max()) == 0 for w in system.weights(system.answer(inputs[:1])[0]))


@every_task
def test_scores_are_figures_and_a_line(name, folders, system, tmp_path):
    if name in GENERATES:
        assert run("evaluate", folders(name), "--json").exit_code == 0
    else:
        assert "needed" in refused(run("evaluate", folders(name)))
    assert f"--nonsense is not for a {TASKS[name].makes}" in refused(
        run("evaluate", folders(name), "--nonsense", 1)
    )
    assert "needs a value" in refused(run("evaluate", folders(name), "--data"))
    if TASKS[name].models:
        examples = [example for _, example in TASKS[name].read(system.settings, "valid")][:8]
        scores = system.score(examples)
        json.dumps(scores.figures)
        assert scores.line and all(len(row) == len(scores.headings) for row in scores.rows)


@every_task
def test_explaining_works_or_is_refused_in_one_sentence(name, folders, system):
    if isinstance(tiny(name)["inputs"][0], str) and TASKS[name].Audit is not None:
        done = run("explain", folders(name), "--text", tiny(name)["inputs"][0])
        assert done.exit_code == 0 or refused(done).endswith(".") or "See" in refused(done)
    if TASKS[name].Audit is None:
        with pytest.raises(RunError, match=TASKS[name].makes):
            system.case(tiny(name)["inputs"])


@every_task
def test_auditing_works_or_is_refused_in_one_sentence(name, folders):
    line = refused(run("audit", folders(name), "--quick"))
    assert TASKS[name].makes in line


@every_task
def test_viewing_works_or_is_refused_in_one_sentence(name, folders, tmp_path):
    out = tmp_path / "view.html"
    text, second = typed(name)
    second = second if regard.load(folders(name)).takes_second else []
    done = run("view", folders(name), "--text", text, *second, "--out", out)
    if not regard.load(folders(name)).layers:
        refused(done)
        assert not out.exists()
    else:
        assert done.exit_code == 0, done.output
        assert "<script" in out.read_text()


@every_task
def test_serving_works_or_is_refused_in_one_sentence(name, folders):
    from fastapi.testclient import TestClient

    from regard.serve import open_runs
    from regard.serve.web_app import make_app

    text, second = typed(name)
    if not TASKS[name].models:
        with pytest.raises(RunError, match=TASKS[name].makes):
            open_runs([folders(name)])
        return
    with TestClient(make_app(open_runs([folders(name)])), base_url="http://127.0.0.1") as client:
        (facts,) = client.get("/api/runs").json()
        assert facts["name"] == "run" and isinstance(facts["controls"], list)
        changes = ["delete", *(["blur"] if facts["pictures"] else [])]
        assert facts["changes"] in (["mask", *changes], changes)
        asked = {"run": "run", "text": text, "words": [0], "how": facts["changes"][0]}
        if facts["second"]:
            asked["second"] = second[1]
        found = client.post("/api/inspect", json=asked)
        assert found.status_code == 200, found.text
        assert found.json()["answer"]


def sharded_fits(team: Team, folder: Path):
    """The line of scores of every task, or why it was refused."""
    WHERE.entries.update(TOY)  # in a process of its own
    found: dict[str, str | Exception] = {}
    for name in TASKS:
        try:
            found[name] = fit(resolve(values(name)), folder / name, team=team, sharded=True).scores.line
        except (RunError, Ended) as error:
            found[name] = error
    return found


def test_shard_and_torchrun_work_or_are_refused_in_one_sentence(tmp_path):
    first, other = together(2, sharded_fits, tmp_path / "two")
    assert isinstance(first, dict), first
    for name, line in first.items():
        if TASKS[name].models:
            assert "torchrun" in refused(train(name, tmp_path / "one", "--shard"))
            assert not (tmp_path / "one").exists()
            assert line == other[name] and isinstance(line, str), name
            assert regard.load(tmp_path / "two" / name).task is TASKS[name]
        else:
            assert isinstance(line, RunError) and "one process" in str(line)


def test_a_third_task_learns(tmp_path):
    training = {
        "steps": 200,
        "tokens": 256,
        "validate": 100,
        "rate": 0.02,
        "warmup": 10,
        "schedule": "constant",
    }
    done = fit(resolve({"task": "vowels", "training": training}), tmp_path / "run")
    assert done.scores["error"] < 0.3
    (found,) = done.system.answer(["aebcdou"])
    assert round(found.vowels) == 4
