"""Regular expressions for text of users take a time that grows with the text, not with its square."""

import re
from importlib import import_module
from pathlib import Path
from time import process_time

import pytest

import regard

FOLDERS = ["alignment", "analyses", "data", "inspection", "serve", "tasks"]
SHAPES = [" ", "a", "1", "1 ", "字", "e\u0301", "1-", ".", "a'", "\t"]


def patterns():
    """Every pattern that a module of these folders has, by module and name."""
    root = Path(regard.__file__).parent
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    for file in files:
        if "re.compile" in (text := file.read_text(encoding="utf-8")):
            module = import_module(".".join(("regard", *file.relative_to(root).with_suffix("").parts)))
            found = {name: one for name, one in vars(module).items() if isinstance(one, re.Pattern)}
            assert text.count("re.compile") == len(found), f"{file}: a pattern belongs at the top of a module"
            for name, pattern in found.items():
                used = sorted(set(re.findall(rf"\b{name}\.(\w+)\(", text)))  # in one order: xdist compares
                assert set(used) <= {"match", "fullmatch", "finditer", "findall"}, (
                    f"{file}: {name} is used elsewhere"
                )
                yield from (pytest.param(pattern, one, id=f"{module.__name__}.{name}.{one}") for one in used)


@pytest.mark.parametrize(("pattern", "used"), list(patterns()))
def test_no_pattern_backtracks_over_a_whole_text(pattern, used):
    started = process_time()
    for shape in SHAPES:
        for start in ("", "1", "1 1 1", "1-"):
            found = getattr(pattern, used)(f"{start}{shape * 30_000}b c")
            list(found or ()) if used == "finditer" else found
    assert process_time() - started < 10  # of 40 texts; one that backtracks takes as long for one
