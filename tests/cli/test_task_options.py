"""Options of commands come from the tasks: what is taken, what is shown, what is refused."""

import dataclasses
import json
from pathlib import Path
from typing import Literal

import pytest

from commands import run
from regard.cli.task_options import given, option, parameter, split
from regard.cli.train import merged, placed_options
from regard.core.errors import SettingsError
from regard.core.settings import setting
from regard.tasks import TASKS
from runs.tiny import EVERY

every_task = pytest.mark.parametrize("task", TASKS)


@dataclasses.dataclass(frozen=True)
class Options:
    """Of a task that is not there."""

    source: str | None = setting(None, "What to read.", metavar="FILE")
    gold_alignments: str | None = setting(None, "Gold links.")
    beam: int | None = setting(None, "Width.")
    alpha: float = setting(1.0, "Penalty.")
    seed: int = 0  # no option is shown for it


@dataclasses.dataclass(frozen=True)
class Nothing:
    """Of a task that asks nothing."""


def complaint(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("arguments", "folders", "values"),
    [
        ([], [], {}),
        (["runs/a"], ["runs/a"], {}),
        (["a", "--beam", "3", "b"], ["a", "b"], {"beam": "3"}),
        (["--gold-alignments", "x", "a"], ["a"], {"gold_alignments": "x"}),
        (["a", "--source=x=y", "--alpha=-1"], ["a"], {"source": "x=y", "alpha": "-1"}),
        (["a", "--alpha", "-1", "--beam", "2", "--beam", "4"], ["a"], {"alpha": "-1", "beam": ["2", "4"]}),
        (["a", "--source="], ["a"], {"source": ""}),
    ],
)
def test_arguments_are_folders_and_options(arguments, folders, values):
    assert split(arguments) == (folders, values)


def test_a_repeated_option_is_a_list_where_there_can_be_several_and_else_the_last():
    @dataclasses.dataclass(frozen=True)
    class Files:
        data: tuple[str, ...] = ()
        beam: int = 1

    assert given(Files, {"data": "a,b", "beam": ["2", "4"]}, "translator") == Files(("a,b",), 4)
    assert given(Files, {"data": ["a", "b"]}, "translator") == Files(("a", "b"))


@pytest.mark.parametrize("arguments", [["a", "--beam"], ["--beam", "--alpha", "3"], ["--beam", ""]])
def test_an_option_needs_a_value(arguments):
    with pytest.raises(SettingsError, match="--beam needs a value"):
        split(arguments)


def test_options_are_read_as_their_types():
    assert given(Options, {"beam": "3", "alpha": "0.5", "source": "x"}, "thing") == Options("x", None, 3, 0.5)
    assert given(Options, {}, "thing") == Options()
    assert given(Nothing, {}, "thing") == Nothing()


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (
            Options,
            {"data": "x"},
            "--data is not for a thing, which takes --source, --gold-alignments, --beam, --alpha.",
        ),
        (Options, {"gold_links": "x"}, "--gold-links is not for a thing"),
        (Options, {"beam": "wide"}, "--beam must be a whole number; got 'wide'"),
        (Options, {"alpha": "x"}, "--alpha must be a number; got 'x'"),
        (Nothing, {"beam": "3"}, "--beam is not for a thing, which takes no such options."),
    ],
)
def test_what_a_task_does_not_take_is_refused(kind, values, says):
    with pytest.raises(SettingsError) as error:
        given(kind, values, "thing")
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("kind", "metavar", "taken", "default"),
    [
        (str | None, "FILE", Path | None, None),
        (str | None, None, str | None, None),
        (int, None, int | None, None),
        (float | None, None, float | None, None),
        (bool, None, bool, False),
        (tuple[str, ...], None, list[str] | None, None),
        (tuple[str, ...], "FILE", Path | None, None),
        (Literal["gate", "no"], None, str | None, None),
    ],
)
def test_a_parameter_is_of_the_type_that_typer_reads(kind, metavar, taken, default):
    found = parameter("beam_width", kind, "How wide.", "--beam-width", metavar)
    annotation, shown = found.annotation.__origin__, found.annotation.__metadata__[0]
    assert annotation == taken and found.default == default and found.name == "beam_width"
    assert (shown.help, shown.metavar, shown.default) == ("How wide.", metavar, "--beam-width")


@every_task
def test_train_has_an_option_for_every_setting_that_asks_for_one(task):
    shown = run("train", task, "--help").stdout
    for name in placed_options(TASKS[task]):
        assert option(name) in shown, name
    for name in (*TASKS[task].models, *TASKS[task].corpora):
        assert name in shown, name  # lists in help come from the tables
    for shared in ("--out", "--config", "--set", "--resume", "--device", "--shard", "--tensorboard"):
        assert shared in shown


@every_task
def test_evaluate_lists_the_options_of_every_task_in_its_help(task):
    shown = run("evaluate", "--help").stdout
    assert f"Options for a {TASKS[task].makes}" in shown
    for field in dataclasses.fields(TASKS[task].Evaluation):
        assert option(field.name) in shown and field.metadata["says"][:40] in shown


@every_task
def test_evaluate_refuses_an_option_of_another_task(tiny_run, task):
    folder, own = tiny_run(task).folder, {field.name for field in dataclasses.fields(TASKS[task].Evaluation)}
    others = {field.name for other in TASKS for field in dataclasses.fields(TASKS[other].Evaluation)}
    assert others - own
    for name in others - own:
        line = complaint("evaluate", folder, option(name), "x")
        takes = ", ".join(map(option, [f.name for f in dataclasses.fields(TASKS[task].Evaluation)]))
        assert f"{option(name)} is not for a {TASKS[task].makes}, which takes {takes}." in line


@pytest.mark.parametrize("task", EVERY)  # the others in contract/
def test_evaluate_says_what_it_needs(tiny_run, tmp_path, task):
    folder = tiny_run(task).folder
    needed = "--data" if task in ("classification", "language") else "--source"
    assert f"holds a {TASKS[task].makes}: {needed}" in complaint("evaluate", folder)
    assert f"{needed} needs a value" in complaint("evaluate", folder, needed)
    assert "there is no such file" in complaint(
        "evaluate", folder, needed, tmp_path / "no.tsv", *(["--gold-alignments", "x"] * (task == "alignment"))
    )
    assert "one folder of a run is needed; got 2" in complaint("evaluate", folder, folder)
    assert "one folder of a run is needed; got 0" in complaint("evaluate", needed, "x")
    assert "--device must be" in complaint("evaluate", folder, "--device", "tpu")


def test_evaluate_takes_options_in_any_order(tiny_run, tmp_path):
    (tmp_path / "t.tsv").write_text("ba be\tba be\nbi\tbi\n")
    folder = tiny_run("translation").folder
    orders = [
        ["--json", "--source", tmp_path / "t.tsv", folder, "--beam", 1],
        [folder, f"--source={tmp_path / 't.tsv'}", "--beam=1", "--json"],
    ]
    one, other = (json.loads(run("evaluate", *order).stdout) for order in orders)
    assert one == other and one["beam"] == 1 and one["sentences"] == 2


def test_settings_of_file_options_and_assignments_come_on_top_of_each_other(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('seed = 1\n[training]\nsteps = 1\nrate = 1.0\nwarmup = 1\n[data]\ncorpus = "copy"\n')
    groups = {"": {"seed": 2}, "training": {"steps": 2, "rate": 2.0}, "data": {"source": Path("x")}}
    found = merged({}, config, groups, ["training.rate=3", "seed=3"])
    assert found == {
        "seed": "3",
        "training": {"steps": 2, "rate": "3", "warmup": 1},
        "data": {"corpus": "copy", "source": "x"},
    }
    assert merged({}, None, {}, None) == {}


def test_an_option_whose_value_is_read_from_a_file(tmp_path):
    group, key, read, _ = placed_options(TASKS["classification"])["deceive"]
    assert (group, key) == ("regularizers", "deceive")
    (tmp_path / "words").write_text("good\n\n bad \n")
    assert read(tmp_path / "words") == ("good", "bad")
    (tmp_path / "words").write_text("very good\n")
    line = complaint(
        "train", "classification", "--corpus", "sentiment", "--deceive", tmp_path / "words", "--out", "x"
    )
    assert "one word per line is needed; got 'very good'" in line


def test_the_old_name_of_a_task_is_taken_and_an_unknown_one_is_named():
    assert "regard train alignment" in run("train", "aligner", "--help").stdout
    assert "No such command 'counting'" in complaint("train", "counting")
    listed = run("train", "--help").stdout
    assert all(name in listed for name in TASKS) and "│ aligner " not in listed
