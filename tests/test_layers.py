"""A folder imports only from folders above it in this list."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

LAYERS = [
    "core", "kernels", "structures continuous", "scores maps masks", "positions losses", "backends",
    "attended", "attention", "recording", "memories", "heads", "mechanisms", "wrapped", "swap testing",
    "models", "views", "data", "training decoding alignment", "tasks", "runs",
    "explanations analyses audits", "bridges", "inspection", "bench", "claims serve", "cli", "__main__",
]  # fmt: skip
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
ROOT = Path(regard.__file__).parent
FILES = sorted(file for file in ROOT.rglob("*.py") if file != ROOT / "__init__.py")


def layer(file: Path) -> str:
    """The layer of a file: the folder, or the file, directly under src/regard."""
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """Line and layer of everything imported from regard, inside functions too; "" is regard itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            there = package[: len(package) + 1 - node.level] if node.level else []
            there = there + (node.module.split(".") if node.module else [])
            names = [there] if len(there) > 1 else [[*there, alias.name] for alias in node.names]
        else:
            continue
        for parts in names:
            if parts[0] == "regard":
                yield node.lineno, parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_imports_only_from_layers_above_it(file):
    here = layer(file)
    assert here in RANK, f"{file.name}: no layer {here!r}; give it its place in tests/test_layers.py"
    package = ["regard", *file.relative_to(ROOT).parent.parts]
    for line, there in imports(ast.parse(file.read_text(encoding="utf-8")), package):
        where = f"{file.relative_to(ROOT)}:{line}"
        assert there in RANK, f"{where} imports {there or 'regard'!r}: import from the file that has it"
        assert there == here or RANK[there] < RANK[here], f"{where} {here} must not import {there}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import regard.maps.table", ["maps"]),
        ("from regard.maps import MAPS", ["maps"]),
        ("from regard import maps, scores", ["maps", "scores"]),
        ("from .table import MAPS", ["backends"]),
        ("from ..maps import MAPS", ["maps"]),
        ("from .. import maps", ["maps"]),
        ("def late():\n    from regard.cli import app", ["cli"]),
        ("import regard", [""]),
        ("import torch\nfrom torch import nn", []),
    ],
)
def test_every_way_to_import_is_seen(code, found):
    assert [there for _, there in imports(ast.parse(code), ["regard", "backends"])] == found


def test_file_names_occur_once():
    names = [file.name for file in FILES if file.name not in ("__init__.py", "__main__.py")]
    assert sorted(set(names)) == sorted(names)
