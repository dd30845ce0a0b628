"""What the browser needs: one script and one style, the same in saved pages and on the server."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from regard.views.ramps import EQUAL, browser

PARTS = (
    "dom",
    "colours",
    "numbers",
    "grid",
    "hands",
    "heat_map",
    "table",
    "words",
    "lines",
    "heads",
    "image",
    "charts",
    "draw",
)


@cache
def script() -> str:
    """The script that defines the one global `regard`: its parts, joined."""
    ramps = f"const RAMPS = {json.dumps(browser())}, EQUAL = {EQUAL};\n"
    return (
        "'use strict';\nglobalThis.regard = (() => {\n"
        + ramps
        + "".join(map(_js, PARTS))
        + "return {draw};\n})();\n"
    )


@cache
def style() -> str:
    """The style; every name in it begins with regard."""
    return (files(__name__) / "draw.css").read_text(encoding="utf-8")


def embed(data: Any) -> str:
    """JSON that can stand inside a <script> element: nothing in it ends the element or begins another."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _js(part: str) -> str:
    return (files(__name__) / f"{part}.js").read_text(encoding="utf-8")
