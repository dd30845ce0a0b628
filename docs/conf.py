"""The documentation: Sphinx, with Markdown pages and a reference made of the docstrings."""

import pkgutil
import re
from importlib import import_module, metadata
from typing import Any

project = "regard"
author = "the regard contributors"
release = metadata.version("regard")
extensions = ["sphinx.ext.autodoc", "myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "regard"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

# What users call; backends, kernels, bench and cli are for those who read the code.
PUBLIC = (
    "attention recording swap heads maps maps.estimators scores positions masks memories losses structures "
    "continuous testing models data tasks training decoding alignment runs explanations analyses audits "
    "inspection views serve"
)


def modules(name: str) -> list[str]:
    """A public module and the files of its folder; none where it is not written yet."""
    try:
        module = import_module(f"regard.{name}")
    except ModuleNotFoundError:
        return []
    inside = pkgutil.iter_modules(getattr(module, "__path__", []), f"regard.{name}.")
    named = [f"regard.{public}" for public in PUBLIC.split()]  # these have their own turn
    return [module.__name__, *(info.name for info in inside if info.name not in named)]


def reference(app: Any, page: str, text: list[str]) -> None:
    """The reference lists every public file, so that a new one cannot be forgotten."""
    if page == "reference":
        found = []
        for name in PUBLIC.split():
            for module in modules(name):
                found += [f"{'##' if module.count('.') == 1 else '###'} `{module}`", "", "```{eval-rst}"]
                found += [f".. automodule:: {module}", "   :members:", "   :show-inheritance:", "```", ""]
        text[0] = text[0].replace("<!-- modules -->", "\n".join(found))


def plain(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with `code` and indented formulas; Sphinx would read markup into them."""
    text: list[str] = []
    formula = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not formula:
            text += ["", "::", ""]
        if formula and not indented and line:
            text.append("")
        formula = indented or (formula and not line)
        text.append(line if indented else escaped(line))
    lines[:] = text


def escaped(line: str) -> str:
    """A line of text whose `code` is code and whose other signs are themselves."""
    parts = re.split(r"`+([^`]+)`+", line)  # text, code, text, …
    return "".join(
        rf"``{part}``\ " if odd else re.sub(r"([*_|\\])", r"\\\1", part)
        for part, odd in zip(parts, [False, True] * len(parts), strict=False)
    )


def setup(app: Any) -> None:
    app.connect("source-read", reference)
    app.connect("autodoc-process-docstring", plain)
