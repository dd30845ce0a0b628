"""README and pages say what is true: their code runs as pasted, their tables are those of the library."""

import importlib
import importlib.util
import inspect
import re
import shlex
from itertools import groupby, takewhile
from pathlib import Path

import pytest
from typer.main import get_group

import regard
from commands import run
from regard.cli import app
from regard.cli.task_options import KINDS, split
from regard.cli.train import merged, train_run
from regard.core.settings import fields_of
from regard.tasks import TASKS

ROOT = Path(__file__).parents[1]
WHOLE = ["hugging_face.md"]  # its blocks follow one another, and need a model: tests/bridges/test_minilm.py
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").glob("*.md") if p.name not in WHOLE)]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
]


def typed(text):
    """The commands `regard …` in the shell blocks of a page, as lists of words."""
    for block in re.findall(r"^```(?:ba)?sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            found = shlex.shlex(line.replace("$'", "'"), posix=True, punctuation_chars="<>|;&")
            found.whitespace_split = True
            for end, part in groupby(found, key=lambda word: word in ("&&", "|", ";")):
                part = list(takewhile(lambda word: word not in ("<", ">"), part))
                starts = [number for number, word in enumerate(part) if word.endswith("regard")]
                if not end and starts and (starts[0] == 0 or part[0] == "torchrun"):
                    yield part[starts[0] + 1 :]


TEXTS = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
COMMANDS = sorted({tuple(words) for text in TEXTS for words in typed(text)})


def generate():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("block", BLOCKS)
def test_code_runs_as_pasted(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(block, "block", "exec"), names)
    assert names.get("regard", regard) is regard


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_are_understood_as_pasted(words, tmp_path, monkeypatch):
    """Every option exists; what is trained without a file of the user's has a corpus."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "words.txt").write_text("she\n")

    def resolved(task, groups, *, config, assignments, resume, init, **_):
        values = merged({}, config, groups, assignments)
        if not (resume or init):
            task.resolve({**values, "task": task.name})

    resolved.__signature__ = inspect.signature(train_run)
    monkeypatch.setattr(importlib.import_module("regard.cli.train"), "train_run", resolved)
    group = get_group(app)
    context = group.make_context("regard", list(words))
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    if name == "train":
        done = run(*words)
        assert done.exit_code == 0, done.stderr
        return
    inner = command.make_context(name, rest, parent=context)
    if name in KINDS:
        _, given = split(inner.params["arguments"])
        kinds = [getattr(TASKS[task], KINDS[name]) for task in TASKS]
        assert any(kind is not None and set(given) <= set(fields_of(kind)) for kind in kinds), given


def test_readme_has_code():
    assert any(param.id.startswith("README") for param in BLOCKS)


@pytest.mark.parametrize("name", ["README.md", "docs/benchmarks.md", "docs/scores_and_maps.md"])
def test_generated_tables_are_fresh(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == generate().rewritten(text), f"{name} is stale: run make tables"


def test_every_generated_part_has_its_place():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in generate().parts():
        assert f"<!-- {name} -->" in text
        assert f"<!-- /{name} -->" in text


def test_tables_name_every_score_and_map():
    text = (ROOT / "docs" / "scores_and_maps.md").read_text(encoding="utf-8")
    for name in (*regard.SCORES, *regard.MAPS):
        assert f"| `{name}` |" in text


def test_readme_is_short_and_counts_right():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    spelt = {9: "nine", 22: "twenty-two"}
    assert f"There are {spelt[len(regard.SCORES)]} scores and {spelt[len(regard.MAPS)]} maps" in text, (
        "the README counts scores and maps"
    )
    cost = text.split("<!-- cost -->")[1].split("<!-- /cost -->")[0]
    assert cost.count("\n| ") == 2 + len(generate().COST)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" not in target:
            assert (page.parent / target.split("#")[0]).exists(), target


def test_every_page_has_its_place_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"```\{toctree\}(.*?)```", index, re.DOTALL)
    listed = {name for tree in trees for name in tree.split()}
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= listed, pages - listed


def test_pictures_are_small():
    pictures = sorted((ROOT / "docs" / "images").glob("*.png"))
    assert pictures
    assert all(0 < picture.stat().st_size < 200_000 for picture in pictures)
