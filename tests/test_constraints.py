"""constraints.txt pins all that is installed, so that an old commit can be installed again."""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LINES = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINNED = dict(line.split("==") for line in LINES if not line.startswith("#"))
OUTSIDE = re.compile("nvidia|cuda|triton|setuptools|regard")  # of the index, the environment, ourselves


def needed(name, extras, found):
    """The names of all packages that are installed for one, itself included."""
    try:
        parts = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for line in parts:
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            key = canonicalize_name(wanted.name), tuple(sorted(wanted.extras))
            if key not in found:
                found.add(key)
                needed(*key, found)


def test_every_line_is_a_name_and_a_version():
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in LINES[1:])
    assert PINNED["torch"] == "2.13.0"  # no build's name: the index decides


def test_what_is_installed_is_pinned_directly_or_not():
    found = set()
    needed("regard", ("dev",), found)
    names = {name for name, _ in found if not OUTSIDE.match(name)}
    assert {"torch", "starlette", "pydantic", "h11"} <= names
    assert names <= set(map(canonicalize_name, PINNED)), "run make constraints"
