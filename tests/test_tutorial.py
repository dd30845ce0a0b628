"""The tutorial runs as it stands, and prints what it shows; the walk-through and the gallery are fresh."""

import io
import re
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "tutorial").glob("*.md"))
EXAMPLES = sorted((DOCS.parent / "examples").glob("plot_*.py"))
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ABOUT = re.compile(r"≈ (\d+\.\d+)")
LESSONS = [page for page in PAGES if page.stem != "index"]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(page):
    """Code and what it prints, None where nothing is shown."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    for (kind, code), (after, shown) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind == "python":
            yield code, shown if after == "text" else None


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, found = {"__name__": "tutorial"}, list(blocks(page))
    assert found
    for code, shown in found:
        with redirect_stdout(io.StringIO()) as said:
            exec(compile(code, str(page), "exec"), names)
        assert shown is not None or not said.getvalue(), f"it prints and the page does not show it:\n{code}"
        if shown is not None:
            assert agrees(printed := said.getvalue(), shown), f"it shows\n{shown}\nand prints\n{printed}"


def agrees(said, shown):
    """The same text; a number after ≈ may be 0.1 off."""
    here, there = (list(map(float, ABOUT.findall(text))) for text in (said, shown))
    same = ABOUT.sub("≈", said) == ABOUT.sub("≈", shown)
    return same and all(abs(a - b) <= 0.1 + 1e-9 for a, b in zip(here, there, strict=True))


def test_agreement_is_not_blind():
    assert agrees("right ≈ 0.97, 3 words\n", "right ≈ 1.00, 3 words\n")
    assert not agrees("right ≈ 0.80, 3 words\n", "right ≈ 1.00, 3 words\n")
    assert not agrees("right ≈ 1.00, 4 words\n", "right ≈ 1.00, 3 words\n")


def test_every_text_block_follows_its_code():
    for page in PAGES:
        kinds = [kind for kind, _ in BLOCK.findall(page.read_text(encoding="utf-8"))]
        assert all(kinds[i - 1 : i] == ["python"] for i, kind in enumerate(kinds) if kind == "text")


@every_page
def test_links_and_pictures_are_there(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert "://" in target or (page.parent / target.split("#")[0]).exists(), target


def test_the_tutorial_lists_its_pages():
    text = (DOCS / "tutorial" / "index.md").read_text(encoding="utf-8")
    listed = re.search(r"```\{toctree\}(.*?)```", text, re.DOTALL)
    assert {page.stem for page in LESSONS} <= set(listed[1].split())


@pytest.fixture
def script(monkeypatch):
    """A script of the documentation by name."""
    monkeypatch.syspath_prepend(str(DOCS))
    before = set(sys.modules)
    yield import_module
    for name in set(sys.modules) - before:
        if name.startswith("walk") or name == "gallery":
            del sys.modules[name]


def test_the_walk_through_is_fresh(script):
    walk = script("walk")
    text = walk.PAGE.read_text(encoding="utf-8")
    assert text == walk.rewritten(text), "docs/walk_through.md is stale: run python docs/walk.py"
    assert all(f"<!-- {name} -->" in text and f"<!-- /{name} -->" in text for name in walk.parts())


def test_the_walk_through_says_what_was_to_be_said(script):
    parts = script("walk").parts()
    assert parts["said"] == "I am a student </s>"
    assert parts["heads"].count("head") == 8
    assert sum(name.startswith("step-") for name in parts) == 5


def test_the_gallery_shows_every_example(script):
    gallery = script("gallery")
    text = gallery.PAGE.read_text(encoding="utf-8")
    assert text == gallery.page(), "docs/gallery.md is stale: run make images"
    for example in EXAMPLES:
        name = example.stem.removeprefix("plot_")
        assert f"images/{name}.png" in text
        assert (DOCS / "images" / f"{name}.png").exists(), f"no picture of {name}: run make images"
