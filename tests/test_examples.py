"""Every example runs, ends in one picture, begins with a question and ends with what to change."""

import ast
import io
import runpy
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest
import torch

from regard.cli.demo import SETTINGS
from regard.runs import fit, resolve
from runs.tiny import CLASSIFIER, changed

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
every_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with runs of the names that examples load, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    demo = changed(
        SETTINGS,
        data={"pairs": 300, "held_out": 20, "vocabulary": 300},
        model={**SETTINGS["model"], "width": 16, "inner": 16},
        training={"steps": 8, "validate": 8, "save": 8},
        decoding={"most": 12},
    )
    fit(resolve(demo), folder / "demo")
    fit(resolve(changed(CLASSIFIER, training={"steps": 2, "validate": 2, "save": 2})), folder / "sentiment")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory, runs):
    """Run an example, once: what it printed, and the folder it ran in."""
    done = {}

    def run(file):
        if file not in done:
            folder, said = tmp_path_factory.mktemp(file.stem), io.StringIO()
            (folder / "runs").symlink_to(runs)
            torch.manual_seed(torch.initial_seed())
            with chdir(folder), redirect_stdout(said):
                runpy.run_path(str(file), run_name="__main__")
            pyplot.close("all")
            done[file] = said.getvalue(), folder
        return done[file]

    pyplot = pytest.importorskip("matplotlib.pyplot")
    return run


@every_example
def test_it_ends_in_a_picture(file, run):
    _, folder = run(file)
    (picture,) = (file for file in folder.iterdir() if file.name != "runs")
    assert picture.name == f"{file.stem.removeprefix('plot_')}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_table_of_bias_and_variance_is_what_the_example_prints(run):
    """docs/hard_attention.md, to what another machine's random numbers may change."""
    said, _ = run(ROOT / "examples" / "plot_estimators.py")
    page = (ROOT / "docs" / "hard_attention.md").read_text(encoding="utf-8")
    written = page.split("<!-- estimators -->")[1].split("<!-- /estimators -->")[0].strip().splitlines()[2:]
    printed = [line for line in said.splitlines() if line.startswith("|")]
    assert len(printed) == len(written) == 11
    for one, other in zip(printed, written, strict=True):
        (_, name, *numbers, _), (_, same, *others, _) = one.split("|"), other.split("|")
        assert name == same
        assert [float(x) for x in numbers] == pytest.approx([float(x) for x in others], rel=0.05, abs=0.05)


@every_example
def test_it_asks_a_question_and_says_what_to_change(file):
    text = file.read_text(encoding="utf-8")
    assert "?" in ast.get_docstring(ast.parse(text)).split("\n\n")[0]
    last = text.rstrip().splitlines()[-1]
    assert last.startswith("# Now change ")


@every_example
def test_it_is_short(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    lines = [
        line for line in file.read_text(encoding="utf-8").splitlines()[tree.body[0].end_lineno :] if line
    ]
    assert 10 <= len(lines) <= 40
