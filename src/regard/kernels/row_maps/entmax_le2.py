"""α-entmax for one row and 1 ≤ α ≤ 2.

Write β = α − 1 and measure scores from their maximum, u = θ − max θ. Then pⱼ = [yⱼ]₊^{1/β} with
yⱼ = 1 + β(uⱼ − λ), and λ, between 0 and (1 − n^{−β})/β, is where f(λ) = Σⱼ pⱼ comes to 1. As β → 0, p
becomes exp(u − λ).

f(λ)^β is a norm of [y]₊, so convex in λ and nearly straight: Newton's steps on it, from the left, never pass
the root, and two or three of Halley's reach rounding. The λ of any part of a row is a bound for the whole:
the maxima of at most 64 parts, found on the way to the maximum, already tell most keys that they are out. If
few are left they are gathered; else the whole row is worked on, as gathering would cost more than it saves.

α-entmax: Peters, Niculae & Martins (2019), arXiv:1905.05702, there by bisection for all α but 1.5 and 2.
"""

import math
from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.powers import exp2, log2
from regard.kernels.common.row_loops import fill_without, inlined, largest
from regard.kernels.row_maps.gather import PARTS, fold, fold_more, gather, groups_above

PADDING = 32  # buffers are filled up to a multiple of it, so that no vectorised loop ends in single steps
BLOCK = 256  # so many numbers are summed in their own precision; the sums of blocks are added in float64
TINY = 1e-30


@inlined
def padded(buffer: Any, m: int, value: float) -> Any:
    """The first m places of a buffer and some more, which get a value that does not count."""
    full = -(-m // PADDING) * PADDING
    for j in range(m, full):
        buffer[j] = value
    return buffer[:full]


@compiled
def evaluate(u: Any, p: Any, beta: float, lam: float) -> Any:
    """Write p(λ) of scores u, and return Σp, Σp/y and Σp/y²; the last is of use for α ≤ 1.5."""
    T = u.dtype.type
    tiny, b, r = T(TINY), T(beta), T(1 / beta)
    one_less, less = T(1 - beta * lam), T(-beta * lam)
    f = s = q = 0.0
    for a in range(0, u.size, BLOCK):
        u_, p_ = u[a : a + BLOCK], p[a : a + BLOCK]
        for j in range(u_.size):  # two loops: together they have more constants than there are registers
            y = one_less + b * u_[j]
            p_[j] = r * log2(less + b * u_[j], y if y > tiny else tiny)
        f_, s_, q_ = T(0), T(0), T(0)
        for j in range(u_.size):
            y = one_less + b * u_[j]
            inverse = T(1) / (y if y > tiny else tiny)
            value = exp2(p_[j]) if y > tiny else T(0)
            p_[j] = value
            f_ += value
            s_ += value * inverse
            q_ += value * inverse * inverse
        f, s, q = f + f_, s + s_, q + q_
    return f, s, q


@inlined
def newton(beta: float, f: float, s: float) -> float:
    """The step in λ by the tangent of f^β: never beyond the root if f > 1."""
    return -math.expm1(-beta * math.log(f)) / beta * f / s


@inlined
def halley(beta: float, f: float, s: float, q: float) -> Any:
    """The step in λ by tangent and curvature; by the tangent for α > 1.5, where keys that leave are kinks."""
    step = newton(beta, f, s)
    bend = 0.5 * step * (1 - beta) * (q / s - s / f)
    return step / (1 - bend) if beta <= 0.5 and bend < 0.5 else step


@inlined
def guess(u: Any, p: Any, sample: Any, beta: float, lam: float) -> Any:
    """A λ that is about right for many scores u, by a step on a sample of them: it saves a pass."""
    many, stride = u.size / sample.size, u.size // sample.size
    for k in range(sample.size):
        sample[k] = u[k * stride]
    f, s, q = evaluate(sample, p, beta, lam)
    return lam + halley(beta, f * many, s * many, q * many) if f > 0 else lam


@inlined
def expect(high: float, below: float) -> float:
    """A λ that is about right for a short row, by how far its scores are below their maximum on average.

    It is high where all are equal, falls by what they fall at first, and goes to 0, where peaked rows are.
    """
    t = below / high if high > 0 else np.inf
    return high / (1 + t + t * t / 6) if t < 3 else 0.0


@inlined
def solve(u: Any, p: Any, beta: float, low: float, lam: float, high: float) -> Any:
    """Write weights p of scores u, from a λ between two bounds; return the λ they are of and the step left.

    The step is so small that weights can follow it by the first terms of their series.
    """
    eps = np.finfo(u.dtype).eps
    near = eps**0.34 if beta <= 0.5 else 8 * eps
    before, step = np.inf, 0.0
    if not low <= lam <= high:
        lam = low
    for _ in range(60):
        f, s, q = evaluate(u, p, beta, lam)
        step = halley(beta, f, s, q) if f > 0 else -np.inf
        off = abs(f - 1)
        unseen = (-beta * step) ** (1 / beta) if step < 0 else 0.0  # the most that keys now out could get
        if (off <= near and unseen <= eps) or (off < 1e-5 and off >= before):
            break
        before = off
        if f > 1:
            low = lam
        else:
            high = lam
        if not low <= lam + step <= high:
            step = (low + high) / 2 - lam
        lam += step
    return lam, step


@inlined
def follow(u: Any, p: Any, beta: float, lam: float, step: float) -> None:
    """Take weights p(λ) to p(λ + step): p·(1 − βt)^{1/β} with t = step/y, by its first three terms."""
    T = u.dtype.type
    b, d, half = T(beta), T(step), T((1 - beta) / 2)
    one_less, edge = T(1 - beta * lam), T(max(beta * step, TINY))
    for j in range(u.size):
        y = one_less + b * u[j]
        t = d / (y if y > edge else edge)
        p[j] = p[j] * (T(1) - t * (T(1) - half * t)) if y > edge else T(0)


@inlined
def entmax_le2(row: Any, weights: Any, beta: float, high: float, window: float, spaces: Any) -> None:
    """Weights of one row; λ ≤ high, and weights are 0 below λ − window."""
    T = row.dtype.type
    n = row.size
    u, p, sample, tops, groups, places = spaces
    tops = fold(row, tops) if n > PARTS else row
    best = largest(tops)
    if not -np.inf < best < np.inf:
        fill_without(best, weights)
        return
    lam, m, sparse = 0.0, n, False
    if n > PARTS:
        parts = fold_more(tops, p, u)
        for k in range(parts.size):
            u[k] = parts[k] - best
        parts = padded(u, parts.size, -np.inf)
        for _ in range(2):
            f, s, q = evaluate(parts, p, beta, lam)
            lam += newton(beta, f, s)
        bar = lam - window
        bar = T(bar - 16 * np.finfo(row.dtype).eps * (1 + abs(bar)))
        sparse = 5 * groups_above(tops, best, bar) < n
        if sparse:
            m = gather(row, tops, best, bar, groups, u, places)
    total = T(0)
    if not sparse:
        for j in range(n):
            u[j] = row[j] - best
            total += u[j]
    u = padded(u, m, -np.inf)
    p = p[: u.size]
    # For α near 1 the bound is a good guess already.
    start = guess(u, p, sample, beta, lam) if m >= 8 * sample.size and beta > 0.15 else lam
    if n <= PARTS:
        start = expect(high, -total / n)
    lam, step = solve(u, p, beta, lam, start, high)
    follow(u, p, beta, lam, step)
    if sparse:
        weights[:] = 0
        for k in range(m):
            weights[places[k]] = p[k]
    else:
        for j in range(n):
            weights[j] = p[j]
