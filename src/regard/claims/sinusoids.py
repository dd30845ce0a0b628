"""C49: moving on is linear in sinusoids, with the paper's exponents; C50: their wavelengths."""

import math
from functools import partial

import torch
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.positions import sinusoid

entry = partial(claim, group="Positions, heads, depth", exact=True)


def of_the_lecture(n: int, d: int) -> Tensor:
    """Sinusoids with 2i + 1 in the exponent of the cosine, as one lecture prints them: (n, d)."""
    t = torch.arange(n, dtype=torch.float64).unsqueeze(-1)
    k = torch.arange(d, dtype=torch.float64)
    angle = t / 10000 ** (k / d)
    return torch.where(k % 2 == 0, angle.sin(), angle.cos())


def misfit(table: Tensor, k: int) -> float:
    """How far the best linear map of x_t is from x_{t+k}."""
    found = torch.linalg.lstsq(table[:-k], table[k:], driver="gelsd").solution
    return float((table[:-k] @ found - table[k:]).abs().max())


def off_toeplitz(table: Tensor) -> float:
    """How much products of places with the same distance differ, at most."""
    products = table @ table.T
    return max(float(each.max() - each.min()) for k in range(len(table)) if len(each := products.diagonal(k)))


@entry(
    "C49",
    fixed="c8690d8",
    says="PE(pos + k) is linear in PE(pos).",
    source="003:245",
    experiment="Least squares at d = 16, n = 512, k = 1, 5, 50; products of encodings by distance.",
    control="The lecture's own exponent, 2i + 1 in the cosine.",
    conditions=[
        at_most(1e-10, "the paper's, residual"),
        at_most(1e-10, "the paper's, products differ by"),
        must_fail(at_least(0.5, "the lecture's, residual")),
        must_fail(at_least(1, "the lecture's, products differ by")),
    ],
    only_if="the exponents are the paper's, not the lecture's",
)
def linear(seed: int) -> Figures:
    """Residuals and products, of two formulas."""
    found = {}
    for name, table in (
        ("the paper's", sinusoid(torch.arange(512), 16)),
        ("the lecture's", of_the_lecture(512, 16)),
    ):
        residuals = [misfit(table, k) for k in (1, 5, 50)]
        found[f"{name}, residual"] = max(residuals) if name == "the paper's" else min(residuals)
        found[f"{name}, products differ by"] = off_toeplitz(table)
    return found


@entry(
    "C50",
    fixed="aa447e2",
    says="Wavelengths from 2π to 10000 · 2π.",
    source="003:241",
    experiment="d = 16: the first pair after 2π, the last after 2π · 10000^((d−2)/d), as they began.",
    control="After 10000 · 2π the last pair is not as it began.",
    conditions=[
        at_most(1e-9, "first pair after 2π, off by", "the first"),
        at_most(1e-9, "last pair after 2π · 10000^((d−2)/d), off by", "the first"),
        at_most(1e-9, "last pair after 10000 · 2π, off by", "the last"),
    ],
    remark="The last only comes near: it is 2π · 10000^((d−2)/d).",
)
def wavelengths(seed: int) -> Figures:
    """How far pairs are from where they began."""
    d = 16
    last = 2 * math.pi * 10000 ** ((d - 2) / d)
    table = sinusoid(torch.tensor([0.0, 2 * math.pi, last, 20000 * math.pi], dtype=torch.float64), d)
    return {
        "first pair after 2π, off by": float((table[1, :2] - table[0, :2]).abs().max()),
        "last pair after 2π · 10000^((d−2)/d), off by": float((table[2, -2:] - table[0, -2:]).abs().max()),
        "last pair after 10000 · 2π, off by": float((table[3, -2:] - table[0, -2:]).abs().max()),
        "last wavelength by 10000 · 2π": last / (20000 * math.pi),
    }
