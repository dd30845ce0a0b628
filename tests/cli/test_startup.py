"""What needs no torch imports none; names and options are completed in the shell."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.cli.app import COMMANDS
from regard.cli.settings_command import settings_of
from regard.cli.train import placed_options
from regard.tasks import SAYS, TASKS


def started(*arguments):
    code = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); "
        f"sys.argv = {['regard', *arguments]!r}; from regard.cli import main; main()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize(
    "arguments",
    ["--version", "--help", "", "train --help", "translate --help", "classify -h", "trian"],
)
def test_torch_is_imported_when_it_is_needed(arguments):
    done = started(*arguments.split())
    assert done.stderr.splitlines()[-1] == "False"
    if arguments == "trian":
        assert "Did you mean 'train'?" in done.stderr and done.returncode == 2
    else:
        assert done.returncode == 0 and done.stdout


def test_importing_regard_imports_no_torch_and_swap_stays_a_function():
    code = (
        "import sys, regard, regard.cli; print('torch' in sys.modules); "
        "from regard.swap import Swapped; print(callable(regard.swap))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\nTrue\n"
    assert all(hasattr(regard, name) for name in regard.__all__) and set(regard.__all__) < set(dir(regard))


def test_what_is_said_of_commands_and_tasks_is_what_they_say():
    group = CliRunner()
    for name, says in COMMANDS.items():
        shown = " ".join(group.invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout.split())
        assert " ".join(says.split()[:2]) in shown, name
    assert list(SAYS) == list(TASKS)


def completed(words):
    env = {**os.environ, "_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": words}
    env["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    code = "from regard.cli import main; main()"
    return subprocess.check_output([sys.executable, "-c", code], text=True, env=env).split()


def test_names_are_completed():
    assert completed("regard tra") == ["train", "translate"]
    assert completed("regard train class") == ["classification"]
    options = placed_options(TASKS["classification"])

    def complete(name, beginning):
        return options[name].parameter.annotation.__metadata__[0].autocompletion(beginning)

    assert complete("map", "entm") == ["entmax", "entmax15"] and complete("score", "dot") == ["dot"]
    assert complete("corpus", "sent") == ["sentiment"] and complete("model", "self") == ["self_attentive"]


SUITED = {  # settings whose default depends on the data or the model, beside steps
    "language": {"model.dropout", "model.tied"},
    "answering": {"model.linear_start"},
}


@pytest.mark.parametrize("name", TASKS)
def test_every_setting_has_a_meaning_and_the_default_it_is_given(name):
    task = TASKS[name]
    for model in task.models or [None]:
        rows = settings_of(task, model)
        assert all(row["meaning"] for row in rows), [r["setting"] for r in rows if not r["meaning"]]
    rows = {row["setting"]: row for row in settings_of(task)}
    if task.models:
        settings = task.resolve({"data": {"corpus": next(iter(task.corpora))}})
        steps = rows["training.steps"]
        assert steps["default"] == settings.training.steps or "as suits" in steps["meaning"]
        assert rows["training.steps"]["option"] == "--steps"
        given = {f"model.{key}": value for key, value in settings.model.items()}
        given = {key: value for key, value in given.items() if key not in SUITED.get(name, ())}
        assert {key: rows[key]["default"] for key in given} == given
    done = CliRunner().invoke(app, ["settings", name], env={"COLUMNS": "200"})
    assert done.exit_code == 0 and all(setting in done.stdout for setting in rows)
