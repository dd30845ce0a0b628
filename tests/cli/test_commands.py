"""The command: what it answers, and how it complains."""

import json
import subprocess
import sys

import pytest

from commands import answer, run
from regard import MAPS, SCORES, __version__
from regard.cli.draw import bar, column, number
from regard.tasks import TASKS

ROWS = [name for name in MAPS if MAPS[name].acts_on == "row"]


def complaint(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_maps_shows_every_map():
    lines = answer("maps", 2, 1, 0.1).splitlines()
    assert lines[0].split() == ["map", "2", "1", "0.1", "support"]
    assert [line.split()[0] for line in lines[1:]] == ROWS


def test_maps_writes_zero_for_exactly_zero():
    line = answer("maps", 3, 0, "--map", "sparsemax").splitlines()[-1]
    assert line.split() == ["sparsemax", "1.000", line.split()[2], "0", "1"]


def test_maps_as_json():
    (one,) = json.loads(answer("maps", 0, 0, "--map", "softmax", "--json"))
    assert one == {"map": "softmax", "weights": [0.5, 0.5], "support": 2}


@pytest.mark.parametrize("scores", [("-1", "2", "-inf"), ("--", "-1", "2", "-inf")])
def test_maps_takes_negative_scores(scores):
    (one,) = json.loads(answer("maps", "--json", "--map", "softmax", *scores))
    assert one["weights"][2] == 0
    assert one["support"] == 2


def test_maps_of_many_scores_fit_on_a_line():
    lines = answer("maps", *range(40), "--map", "softmax", "--map", "sparsemax").splitlines()
    assert len(lines) == 3
    assert lines[2].split()[1] == "·" * 39 + "█"


def test_maps_draws_a_picture(tmp_path):
    file = tmp_path / "maps.svg"
    assert str(file) in answer("maps", 2, 1, "--plot", file)
    assert file.read_text().startswith("<?xml")
    other = tmp_path / "maps.png"
    json.loads(answer("maps", 2, 1, "--plot", other, "--json"))  # nothing but JSON on standard output
    assert other.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["maps"], "at least one score"),
        (["maps", "x"], "must be a number; got 'x'"),
        (["maps", "1,2"], "Put spaces between scores"),
        (["maps", "nan"], "must be finite"),
        (["maps", "inf"], "must be finite"),
        (["maps", "1", "--plto", "x"], "no option --plto"),
        (["maps", "1", "--map", "sparsmax"], "did you mean sparsemax?"),
        (["maps", "1", "--plot", "x.foo"], "got x.foo"),
        (["maps", "1", "--plot"], "requires an argument"),
        (["bench"], "Missing command"),
        (["bench", "maps", "--only", "x"], 'no group "x". Known: rows'),
        (["bench", "attention", "--only", "x"], 'no group "x". Known: sparse'),
        (["bench", "maps", "--plot", "x.foo"], "got x.foo"),
        (["nope"], "No such command 'nope'"),
        (["scores", "--nope"], "No such option"),
    ],
)
def test_complaints_are_one_line(arguments, says):
    line = complaint(*arguments)
    assert says in line
    assert line.startswith("regard")
    assert line.endswith("--help.")


def test_a_picture_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'regard[plot]'" in complaint("maps", 1, "--plot", "a.png")


def test_scores_lists_every_score():
    words = answer("scores").split()
    assert all(name in words for name in SCORES)


def test_version():
    assert answer("--version") == f"regard {__version__}\n"


@pytest.mark.parametrize(
    "path",
    [
        [],
        *([name] for name in ("maps", "scores", "demo", "bench", "train", "translate", "classify", "align")),
        *([name] for name in ("evaluate", "heads", "probe")),
        ["bench", "maps"],
        *(["train", task] for task in TASKS),
    ],
    ids=" ".join,
)
def test_help(path):
    assert " ".join(["Usage: regard", *path]) in answer(*path, "--help")


def test_no_command_shows_the_help():
    assert "Commands" in answer()


@pytest.mark.parametrize("name", ["", "train", "train classification", "classify", "bench maps", "evaluate"])
def test_the_help_of_a_flag_asks_for_no_value(name):
    shown = answer(*name.split(), "--help")
    assert "--help" in shown and "bool" not in shown


def test_in_a_process_of_its_own():
    command = [sys.executable, "-c", "from regard.cli import main; main()", "maps"]
    assert [row["map"] for row in json.loads(answer("maps", "2", "-1", "--json"))] == ROWS
    failed = subprocess.run([*command, "2", "--map", "nope"], capture_output=True, text=True)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith('regard maps: no map "nope".')
    assert len(failed.stderr.splitlines()) == 1


def test_importing_regard_brings_in_no_command_and_no_picture():
    code = (
        "import sys, regard; print([m for m in ('typer', 'rich', 'matplotlib', 'numba') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_what_is_zero_is_not_drawn_and_what_is_not_is():
    assert (bar(0.0, 10), bar(1e-9, 10), bar(1.0, 10), bar(0.5, 10)) == ("", "▏", "█" * 10, "█" * 5)
    assert (column(0.0), column(1e-9), column(1.0)) == ("·", "▁", "█")
    assert (number(0.0), number(1e-9), number(0.5)) == ("0", "0.000", "0.500")
