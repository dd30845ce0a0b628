"""Pages: a view as one HTML file, which makes no request, and as a cell of a notebook.

The Content-Security-Policy names the two scripts and the style by their hashes, so that nothing else in the
page can run, whatever a token says; tokens travel as JSON and are put on the page as text.
"""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from typing import Any

from regard.views.assets import embed, script, style

START = (
    "regard.draw(document.getElementById('view'), JSON.parse(document.getElementById('data').textContent));"
)


def page(data: dict[str, Any]) -> str:
    """The whole page of a view's `data()`."""
    title = escape(data["title"] or f"regard: {data['kind'].replace('_', ' ')}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy([script(), START], [style()])}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        '<main id="view" class="regard-page"><noscript>A script in this file draws it.</noscript></main>\n'
        f'<script type="application/json" id="data">{embed(data)}</script>\n'
        f"<script>{script()}</script>\n<script>{START}</script>\n</body>\n</html>\n"
    )


def cell(data: dict[str, Any]) -> str:
    """The page in a frame of its own: its script runs, its style stays inside, nothing else is in reach."""
    title = escape(data["title"] or "regard")
    return (
        f'<iframe srcdoc="{escape(page(data))}" sandbox="allow-scripts" title="{title}" '
        f'width="100%" height="{_height(data)}" frameborder="0"></iframe>'
    )


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """A Content-Security-Policy that allows these scripts and styles of the page, and nothing else."""
    script, style = (" ".join(map(_hash, texts)) for texts in (scripts, styles))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _height(data: dict[str, Any]) -> int:
    """Pixels that hold most of the picture; the frame scrolls where it does not."""
    rows = len(data.get("target", ())) if data["kind"] != "words" else 6
    return min(720, 300 + 26 * rows)
