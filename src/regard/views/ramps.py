"""Ramps: colours that change evenly to the eye, from a small weight to the largest.

    colour(t) = a point of a path through OKLab, t = length of the way so far / length of the whole way

Equal steps of weight are equal distances in OKLab, where distances follow what people see. The path begins
off the paper's colour: a small weight differs from none. Ottosson (2020), "A perceptual color space for image
processing", gives the two matrices.

Words of a text have one rule, whatever the largest weight is: of n words, one of weight w is at

    t = w^γ,   γ = ln 4 / ln n        0 at 0, 1 at 1, and an equal share, w = 1/n, at a quarter

so equal weights are pale in any text, and the words of a long one, whose weights are all small, still differ.
"""

from math import log

import numpy as np
from numpy.typing import NDArray

Colours = NDArray[np.float64]

PAPER = {"light": "#ffffff", "dark": "#14181d"}
PATHS = {
    "light": ["#d3e6e8", "#4f9db8", "#1f3f7d", "#120a2e"],
    "dark": ["#243a4a", "#2f7fa3", "#7ccbb5", "#f6f7c8"],
}
AGAINST = {
    "light": ["#f7e3cf", "#d9863b", "#8a3413", "#2c0a05"],
    "dark": ["#473023", "#b5622b", "#ecad6c", "#fff0d8"],
}
STEPS = 33  # colours sent to the browser, which fills in between
EQUAL = 0.25  # where on the ramp the weight 1/n of a word is

_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def even(stops: list[str], steps: int) -> list[str]:
    """`steps` colours at equal distances along the path through the stops."""
    path = oklab(np.array([_rgb(stop) for stop in stops]))  # (stops, 3)
    way = np.concatenate([[0.0], np.linalg.norm(np.diff(path, axis=0), axis=1).cumsum()])
    at = np.linspace(0, way[-1], steps)
    lab = np.stack([np.interp(at, way, path[:, axis]) for axis in range(3)], -1)  # (steps, 3)
    return [_hex(colour) for colour in from_oklab(lab)]


def oklab(rgb: Colours) -> Colours:
    """sRGB (..., 3) between 0 and 1 as OKLab (..., 3)."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lab: Colours = np.cbrt(linear @ _TO_LMS.T) @ _TO_LAB.T
    return lab


def from_oklab(lab: Colours) -> Colours:
    """OKLab (..., 3) as sRGB (..., 3), cut to what a screen can show."""
    linear = ((lab @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_TO_LMS).T).clip(0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def place(share: float, n: int) -> float:
    """Where on the ramp a word of n is whose weight is this share of 1: from 0 to 1."""
    return float(min(abs(share), 1.0) ** (log(EQUAL) / log(1 / n) if n > 1 else 1.0))


def browser() -> dict[str, dict[str, list[str]]]:
    """The ramps by scheme and kind, as draw.js wants them; a black-to-white one needs no table."""
    return {
        scheme: {
            "paper": [PAPER[scheme]],
            "even": even(PATHS[scheme], STEPS),
            "against": even(AGAINST[scheme], STEPS),
        }
        for scheme in PATHS
    }


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _hex(rgb: Colours) -> str:
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in rgb)
