"""Colours: even to the eye, off the paper, and with contrast enough to be read, in both schemes."""

import re
from itertools import pairwise

import numpy as np
import pytest

from regard.views.assets import style
from regard.views.ramps import AGAINST, PAPER, PATHS, browser, even, from_oklab, oklab

every_ramp = pytest.mark.parametrize(
    ("scheme", "stops"), [(s, r[s]) for r in (PATHS, AGAINST) for s in ("light", "dark")]
)
TEXT, MARKS = ("ink", "faint"), ("mark", "against", "focus", "edge")


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def contrast(a: str, b: str) -> float:
    """WCAG 2.2: (L₁ + 0.05) / (L₂ + 0.05) of the relative luminances, the lighter above."""

    def luminance(colour: str) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def schemes() -> list[dict[str, str]]:
    """The variables of the style, light and dark."""
    found = re.findall(r"--regard-(\w+): light-dark\((#\w{6}), (#\w{6})\)", style())
    return [{name: colours[scheme] for name, *colours in found} for scheme in (0, 1)]


@every_ramp
def test_equal_steps_of_weight_are_equal_steps_to_the_eye(scheme, stops):
    points = oklab(np.array([rgb(colour) for colour in even(stops, 33)]))
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    assert steps.max() / steps.min() < 1.25  # where the path bends, the straight way is shorter


@every_ramp
def test_more_weight_is_further_from_the_paper(scheme, stops):
    lightness = oklab(np.array([rgb(colour) for colour in even(stops, 33)]))[:, 0]
    paper = oklab(rgb(PAPER[scheme]))[0]
    distances = abs(lightness - paper)
    assert (np.diff(distances) > 0).all()
    assert contrast(even(stops, 2)[0], PAPER[scheme]) > 1.15  # the smallest weight is not paper
    assert contrast(even(stops, 2)[1], PAPER[scheme]) > 7


@every_ramp
def test_numbers_in_cells_can_be_read_on_every_colour(scheme, stops):
    assert all(max(contrast(c, "#000000"), contrast(c, "#ffffff")) >= 4.5 for c in even(stops, 256))


def test_oklab_goes_there_and_back():
    colours = np.random.default_rng(0).random((50, 3))
    np.testing.assert_allclose(from_oklab(oklab(colours)), colours, atol=1e-6)
    np.testing.assert_allclose(oklab(np.ones(3)), [1, 0, 0], atol=1e-6)  # white has lightness 1 and no colour


@pytest.mark.parametrize("number", [0, 1])
def test_text_and_marks_have_contrast_in_both_schemes(number):
    colours = schemes()[number]
    assert set((*TEXT, *MARKS, "paper", "picked")) <= set(colours)
    assert all(contrast(colours[name], colours["paper"]) >= 4.5 for name in TEXT)
    assert contrast(colours["ink"], colours["picked"]) >= 4.5  # a word that is marked
    assert contrast(colours["mark"], colours["paper"]) >= 4.5  # the word under the cursor, the chosen button
    assert all(contrast(colours[name], colours["paper"]) >= 3 for name in MARKS)


def test_the_papers_agree():
    light, dark = schemes()
    assert [light["paper"], dark["paper"]] == [PAPER["light"], PAPER["dark"]]
    assert [browser()[s]["paper"] for s in ("light", "dark")] == [[light["paper"]], [dark["paper"]]]
    assert all(a != b for a, b in pairwise(browser()["light"]["even"]))
