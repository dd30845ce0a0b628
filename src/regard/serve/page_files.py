"""The files of the page: as they are served, and all of them in one as it is saved."""

from functools import cache
from importlib.resources import files
from typing import Any

from regard.views import assets
from regard.views.html_page import policy

SCRIPTS = ["controls", "address", "parts", "probabilities", "panel", "page"]  # one after the other
HEAD, DATA = "<!-- head -->", "<!-- data -->"
LIVE = """<link rel="icon" href="/assets/icon.svg">
<link rel="stylesheet" href="/assets/draw.css">
<link rel="stylesheet" href="/assets/page.css">
<script src="/assets/draw.js" defer></script>
<script src="/assets/page.js" defer></script>"""


def served() -> dict[str, tuple[str, str]]:
    """What is served by its path: the kind of each file, and its text."""
    return {
        "/": ("text/html", _read("page.html").replace(HEAD, LIVE).replace(DATA, "")),
        "/assets/draw.js": ("text/javascript", assets.script()),
        "/assets/draw.css": ("text/css", assets.style()),
        "/assets/page.js": ("text/javascript", script()),
        "/assets/page.css": ("text/css", _read("page.css")),
        "/assets/icon.svg": ("image/svg+xml", _read("icon.svg")),
    }


@cache
def script() -> str:
    """The script of the page: its parts, joined."""
    parts = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    return f"'use strict';\n(() => {{\n{parts}\n}})();\n"


def saved(data: dict[str, Any]) -> str:
    """The page in one file, with its data inside: it makes no request, and works from a disk."""
    styles, scripts = assets.style() + _read("page.css"), assets.script() + script()
    allowed = policy([scripts], [styles])
    head = f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n<style>{styles}</style>'
    shown = (
        f'<script type="application/json" id="saved">{assets.embed(data)}</script>\n'
        f"<script>{scripts}</script>"
    )
    return _read("page.html").replace(HEAD, head).replace(DATA, shown)


@cache
def _read(name: str) -> str:
    return (files("regard.serve") / "assets" / name).read_text(encoding="utf-8")
