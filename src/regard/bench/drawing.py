"""Drawing: how long a page takes to show a heat map in a real browser, from its numbers to the next frames.

Chromium, without a window, through Playwright.
"""

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import torch

from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort
from regard.views import heat_map

NOTICED = 0.1  # seconds
SIZES = [20, 128, 512]
FEWER = {"sizes": SIZES[:1]}
DRAW = """() => new Promise(done => {
  const place = document.createElement('div');
  document.body.append(place);
  const data = JSON.parse(document.getElementById('data').textContent);
  const start = performance.now();
  regard.draw(place, data);
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const took = performance.now() - start;
    place.remove();
    done(took / 1000);
  }));
})"""


def browser() -> str | None:
    """A Chromium on this machine."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def missing() -> list[str]:
    """What is not installed, a line each."""
    lines = [] if find_spec("playwright") else ["playwright is not installed: pip install playwright"]
    return lines if browser() else [*lines, "no chromium was found: make browser installs one"]


def cases(sizes: list[int] | None = None) -> list[TimedCase]:
    """A heat map of each size (default: the published ones), where there is a browser."""
    return [] if missing() else list(_cases(sizes or SIZES))


def _cases(sizes: list[int]) -> Iterator[TimedCase]:
    for n in sizes:
        claim = Claim(f"a heat map of {n} × {n} drawn in a browser", "100 ms", None, 1.0)
        yield TimedCase(
            "drawing", claim, "heat map, softmax weights", partial(_measure, n), None, n, n, "normal"
        )


def _measure(n: int, effort: Effort) -> Measured:
    from playwright.sync_api import sync_playwright

    weights = torch.randn(n, n, generator=torch.Generator().manual_seed(n)).softmax(-1)
    words = [f"word{i}" for i in range(n)]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = heat_map(weights, words, words).save(Path(folder) / "map.html")
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        page = chromium.new_page()
        page.goto(page_file.as_uri())
        page.evaluate(DRAW)
        took = [page.evaluate(DRAW) for _ in range(max(effort.least, 9))]
        chromium.close()
    return Measured(median(took), NOTICED)
