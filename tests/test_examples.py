"""Every example runs, ends in one picture, begins with a question and ends with what to change."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))
every_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


@every_example
def test_it_ends_in_a_picture(file, tmp_path):
    done = subprocess.run([sys.executable, file], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (picture,) = tmp_path.iterdir()
    assert picture.name == f"{file.stem.removeprefix('plot_')}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


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
