"""α-entmax for one row and 1 ≤ α ≤ 2.

Write β = α − 1 and measure scores from their maximum, u = θ − max θ. Then pⱼ = [yⱼ]₊^{1/β} with yⱼ = 1 + β(uⱼ − λ),
and λ, between 0 and (1 − n^{−β})/β, is where f(λ) = Σⱼ pⱼ comes to 1. As β → 0, p becomes exp(u − λ).

f(λ)^β is a norm of [y]₊, so convex in λ and nearly straight: Newton's steps on it, from the left, never pass the
root, and two or three of Halley's reach rounding. The λ of any part of a row is a bound for the whole: the maxima of
at most 64 parts, found on the way to the maximum, already tell most keys that they are out. If few are left they
are gathered; else the whole row is worked on, since gathering would cost more than it saves.

Backward needs p alone. With ℓ = log p, s = p^{1−β} and p̃ = s/Σs,

    (∂p/∂θ) g = s∘(g − p̃ᵀg)      ∂p/∂α = p̃ Σw − w,  w = p ℓ² φ(βℓ),  φ(z) = (e^{−z} − 1 + z)/z²

which is ½(p Σpℓ² − pℓ²) at α = 1. Where β|ℓ| is large for every key, w is mostly a multiple of s, which cancels:
then ∂p/∂α is better written (p − p̃)/β² − (pℓ − p̃ Σpℓ)/β.
"""

import math
from typing import Any

import numpy as np

from regard.kernels.rows import inlined
from regard.kernels.gather import fold, gather, groups_above
from regard.kernels.powers import exp2, exp_tail, log2
from regard.kernels.rows import BLOCK, fill_without, largest

LANES = 32  # buffers are filled up to a multiple of it, so that no vectorised loop ends in single steps
PARTS = 64
TINY = 1e-30


@inlined
def padded(buffer: Any, m: int, value: float) -> Any:
    """The first m places of a buffer and some more, which get a value that does not count."""
    full = -(-m // LANES) * LANES
    for j in range(m, full):
        buffer[j] = value
    return buffer[:full]


@inlined
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
def halley(beta: float, f: float, s: float, q: float) -> float:
    """The step in λ by tangent and curvature of f^β. For α > 1.5 that has none where a key leaves: Newton's."""
    step = newton(beta, f, s)
    bend = 0.5 * step * (1 - beta) * (q / s - s / f)
    return step / (1 - bend) if beta <= 0.5 and bend < 0.5 else step


@inlined
def guess(u: Any, p: Any, sample: Any, beta: float, lam: float) -> float:
    """A λ that is about right, from a sample of many scores u."""
    size = sample.size
    for k in range(size):
        sample[k] = u[k * (u.size // size)]
    for _ in range(2):
        f, s, q = evaluate(sample, p, beta, lam)
        if f == 0:
            break
        many = u.size / size
        lam += halley(beta, f * many, s * many, q * many)
    return lam


@inlined
def solve(u: Any, p: Any, beta: float, low: float, lam: float, high: float) -> Any:
    """Write weights p of scores u, from a λ between two bounds; return the λ they belong to and the step left.

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
        unseen = (-beta * step) ** (1 / beta) if step < 0 else 0.0  # the most that a key now out could come to
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
def gentle(row: Any, weights: Any, beta: float, high: float, window: float, spaces: Any) -> None:
    """Weights of one row; λ ≤ high, and below λ − window weights are 0."""
    T = row.dtype.type
    n = row.size
    u, p, sample, tops, groups, places = spaces
    parts, other = row, p
    if n > PARTS:
        parts = tops = fold(row, tops)
        while parts.size > PARTS:
            parts, other = fold(parts, other), u
    best = largest(parts)
    if not -np.inf < best < np.inf:
        fill_without(best, weights)
        return
    lam, m, sparse = 0.0, n, False
    if n > PARTS:
        for k in range(parts.size):
            u[k] = parts[k] - best
        some = padded(u, parts.size, -np.inf)
        for _ in range(2):
            f, s, q = evaluate(some, p, beta, lam)
            lam += newton(beta, f, s)
        bar = lam - window
        bar = T(bar - 16 * np.finfo(row.dtype).eps * (1 + abs(bar)))
        sparse = 5 * groups_above(tops, best, bar) < n
        if sparse:
            m = gather(row, tops, best, bar, groups, u, places)
    if not sparse:
        for j in range(n):
            u[j] = row[j] - best
    u = padded(u, m, -np.inf)
    p = p[: u.size]
    start = guess(u, p, sample, beta, lam) if m >= 8 * sample.size and beta > 0.15 else lam
    lam, step = solve(u, p, beta, lam, start, high)
    follow(u, p, beta, lam, step)
    if sparse:
        weights[:] = 0
        for k in range(m):
            weights[places[k]] = p[k]
    else:
        for j in range(n):
            weights[j] = p[j]


@inlined
def back_sums(p: Any, g: Any, s: Any, beta: float, learned: bool, near: bool) -> Any:
    """Write s; return Σs, Σsg, and for ∂p/∂α: Σw, Σwg, 0 if it is near 1, else Σpg, Σpℓ, Σpℓg."""
    T = p.dtype.type
    b, rest, ln2, square = T(beta), T(1 - beta), T(math.log(2)), T(1 / beta**2)
    total = total_g = x = y = z = 0.0
    for a in range(0, p.size, BLOCK):
        p_, g_, s_ = p[a : a + BLOCK], g[a : a + BLOCK], s[a : a + BLOCK]
        t, t_g, x_, y_, z_ = T(0), T(0), T(0), T(0), T(0)
        for j in range(p_.size):
            safe = p_[j] if p_[j] > 0 else T(1)
            s_[j] = log2(safe - T(1), safe)
        if learned and not near:
            for j in range(p_.size):
                pl = p_[j] * (s_[j] * ln2)
                x_ += p_[j] * g_[j]
                y_ += pl
                z_ += pl * g_[j]
        if learned and near:
            for j in range(p_.size):
                l = s_[j] * ln2
                value = exp2(rest * s_[j]) if p_[j] > 0 else T(0)
                s_[j] = value
                t += value
                t_g += value * g_[j]
                far = (value - p_[j] + p_[j] * (b * l)) * square
                w = p_[j] * l * l * exp_tail(b * l) if b * l > T(-0.5) else far
                x_ += w
                y_ += w * g_[j]
        else:
            for j in range(p_.size):
                value = exp2(rest * s_[j]) if p_[j] > 0 else T(0)
                s_[j] = value
                t += value
                t_g += value * g_[j]
        total, total_g, x, y, z = total + t, total_g + t_g, x + x_, y + y_, z + z_
    return total, total_g, x, y, z


@inlined
def gentle_back(weights: Any, gradient: Any, answer: Any, beta: float, learned: bool, spaces: Any) -> float:
    """Write the gradient of one row of scores, and return that of α, if it is learned."""
    T = weights.dtype.type
    n = weights.size
    p, g, s, tops, groups, places = spaces
    parts = weights
    if n > PARTS:
        parts = tops = fold(weights, tops)
    best = largest(parts)
    if not best > 0:  # everything is masked, or NaN
        answer[:] = best
        return best
    sparse = n > PARTS and 5 * groups_above(tops, T(0), T(0)) < n
    m = n
    if sparse:
        m = gather(weights, tops, T(0), T(0), groups, p, places)
        for k in range(m):
            g[k] = gradient[places[k]]
    else:
        for j in range(n):
            p[j] = weights[j]
            g[j] = gradient[j] if weights[j] > 0 else T(0)
    p, g = padded(p, m, 0), padded(g, m, 0)
    near = -beta * math.log(best) < 0.7
    total, total_g, x, y, z = back_sums(p, g, s[: p.size], beta, learned, near)
    mean = total_g / total
    q = T(mean)
    if sparse:
        answer[:] = 0
        for k in range(m):
            answer[places[k]] = s[k] * (g[k] - q)
    else:
        for j in range(n):
            answer[j] = s[j] * (g[j] - q)
    return mean * x - y if near else (x - mean) / beta**2 - (z - mean * y) / beta
