"""α-entmax without sorting, forward and backward, with one α per row.

Write β = α − 1 and measure scores from their maximum, u = θ − max θ. Then pⱼ = [yⱼ]₊^{1/β} with yⱼ = 1 + β(uⱼ − λ), and
λ ∈ [0, (1 − n^{−β})/β] is where f(λ) = Σⱼ pⱼ comes to 1. As β → 0, p becomes exp(u − λ) and λ becomes log Σ exp u.

For α ≤ 2, f(λ)^β is a norm of [y]₊, so convex in λ and nearly straight: Newton's steps on it, from the left, never pass
the root, and two or three of Halley's reach rounding. A λ that solves any part of the row is a bound for all of it:
the maxima of at most 64 parts, found on the way to the maximum, already tell most keys that they are out. If few
are left they are gathered, else the whole row is worked on, since gathering then costs more than it saves.
α > 2 is another matter: see entmax_steep.

Backward needs p alone. With ℓ = log p, s = p^{1−β} and p̃ = s/Σs,

    ∂p/∂θ · g = s∘(g − p̃ᵀg)      ∂p/∂α = p̃ Σw − w,  w = p ℓ² φ(βℓ),  φ(z) = (e^{−z} − 1 + z)/z²

whose second part has a limit at α = 1, ½(p Σpℓ² − pℓ²). Where β|ℓ| is large everywhere, w is dominated by a multiple
of s that cancels, and it is better written (p − p̃)/β² − (pℓ − p̃ Σpℓ)/β.

Peters, Niculae & Martins (2019), arXiv:1905.05702; Correia, Niculae & Martins (2019), arXiv:1909.00015, Proposition 1.
"""

import math
from typing import Any

import numpy as np

from regard.kernels.compiled import compiled
from regard.kernels.entmax_steep import steep, steep_back
from regard.kernels.powers import exp2, exp_tail, log2

LANES = 32  # buffers are filled up to a multiple of it, so that no loop ends in single steps
BLOCK = 1024  # sums are taken in the precision of the scores within a block, in float64 across blocks
TINY = 1e-30


@compiled
def _fold(row: Any, top: Any) -> int:
    """Write into top the maxima of at most 64 parts of a row, and return their number."""
    n = row.size
    source = row
    while True:
        quarter = n // 4
        for k in range(quarter):
            a, b, c, d = source[k], source[k + quarter], source[k + 2 * quarter], source[k + 3 * quarter]
            a = a if a > b else b
            c = c if c > d else d
            top[k] = a if a > c else c
        for k in range(n - 4 * quarter):
            x = source[4 * quarter + k]
            top[k] = x if x > top[k] else top[k]
        n, source = quarter, top
        if n <= 64:
            return n


@compiled
def _evaluate(u: Any, p: Any, beta: float, lam: float) -> Any:
    """Write p(λ) of scores u, and return Σp, Σp/y, Σp/y²; the last is of use for α ≤ 1.5."""
    T = u.dtype.type
    tiny = T(TINY)
    b, r = T(beta), T(1 / beta)
    one_less, less = T(1 - beta * lam), T(-beta * lam)
    f = s = q = 0.0
    for a in range(0, u.size, BLOCK):
        u_, p_ = u[a : a + BLOCK], p[a : a + BLOCK]
        for j in range(u_.size):  # two loops: together they have more constants than there are registers
            y = one_less + b * u_[j]
            p_[j] = r * log2(less + b * u_[j], tiny if y <= tiny else y)
        f_, s_, q_ = T(0), T(0), T(0)
        for j in range(u_.size):
            y = one_less + b * u_[j]
            value = T(0) if y <= tiny else exp2(p_[j])
            inverse = T(1) / (tiny if y <= tiny else y)  # NaN stays
            p_[j] = value
            value_y = value * inverse
            f_ += value
            s_ += value_y
            q_ += value_y * inverse
        f, s, q = f + f_, s + s_, q + q_
    return f, s, q


@compiled
def _newton(beta: float, f: float, s: float) -> float:
    """The step in λ by the tangent of f^β: never beyond the root if f > 1."""
    return -math.expm1(-beta * math.log(f)) / beta * f / s


@compiled
def _solve(u: Any, p: Any, beta: float, lam: float, high: float) -> Any:
    """Write weights p of scores u, starting at a λ left of the root; return the λ they belong to and the step left.

    The step is so small that weights can follow it by the first terms of their series.
    """
    eps = np.finfo(u.dtype).eps
    near = eps**0.34 if beta <= 0.5 else 8 * eps
    low, before, step = lam, np.inf, 0.0
    for _ in range(60):
        f, s, q = _evaluate(u, p, beta, lam)
        if s != s:
            return lam, np.nan
        step = _newton(beta, f, s)
        if beta <= 0.5:  # Halley's correction; for larger α, f has no second derivative where a key leaves
            bend = 0.5 * step * (1 - beta) * (q / s - s / f)
            if bend < 0.5:
                step /= 1 - bend
        off = abs(f - 1)
        unseen = (-beta * step) ** (1 / beta) if step < 0 else 0.0  # the most a key now out could come to weigh
        if (off <= near and unseen <= eps) or (off >= before and off < 1e-5):
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


@compiled
def _finish(u: Any, p: Any, beta: float, lam: float, step: float) -> None:
    """Take weights p(λ) to p(λ + step): p·(1 − βt)^{1/β} with t = step/y, by its first three terms."""
    T = u.dtype.type
    b, d, half = T(beta), T(step), T((1 - beta) / 2)
    one_less, edge = T(1 - beta * lam), T(max(beta * step, TINY))
    for j in range(u.size):
        y = one_less + b * u[j]
        t = d / (edge if y <= edge else y)
        p[j] = T(0) if y <= edge else p[j] * (T(1) - t * (T(1) - half * t))


@compiled
def _gentle(row: Any, weights: Any, beta: float, high: float, window: float, u: Any, p: Any, where: Any) -> None:
    """One row for 1 ≤ α ≤ 2."""
    T = row.dtype.type
    n = row.size
    parts = n
    if n > 64:
        parts = _fold(row, u)
    else:
        u[:n] = row
    best = u[0]
    for k in range(parts):
        best = u[k] if u[k] > best else best
    if not best < np.inf or best == -np.inf:
        weights[:] = 0
        for x in row:
            if not x < np.inf:
                weights[:] = np.nan
        return
    for k in range(parts):
        u[k] -= best
    full = -(-parts // LANES) * LANES
    u[parts:full] = -np.inf
    lam = 0.0
    for _ in range(2):
        f, s, q = _evaluate(u[:full], p, beta, lam)
        lam += _newton(beta, f, s)
    bar = lam - window
    bar = T(bar - 16 * np.finfo(row.dtype).eps * (1 + abs(bar)))
    count = T(0)
    for j in range(n):
        count += T(0) if row[j] - best <= bar else T(1)
    gather = 2 * count < n
    if gather:
        m = 0
        for j in range(n):
            u[m] = row[j] - best
            where[m] = j
            m += not (row[j] - best <= bar)
    else:
        m = n
        for j in range(n):
            u[j] = row[j] - best
    full = -(-m // LANES) * LANES
    u[m:full] = -np.inf
    lam, step = _solve(u[:full], p[:full], beta, lam, high)
    if step != step:
        weights[:] = np.nan
        return
    _finish(u[:full], p[:full], beta, lam, step)
    if gather:
        weights[:] = 0
        for k in range(m):
            weights[where[k]] = p[k]
    else:
        weights[:] = p[:n]


@compiled
def forward(start: int, stop: int, scores: Any, alpha: Any, weights: Any) -> None:
    """Weights of the rows start … stop of scores (rows, n), each with its own alpha (rows,)."""
    n = scores.shape[1]
    size = n + LANES
    u, p, where = np.empty(size, scores.dtype), np.empty(size, scores.dtype), np.empty(size, np.int32)
    wide, wide_p = np.empty(n), np.empty(n)  # untouched unless some α > 2
    beta = high = window = -1.0
    for i in range(start, stop):
        if alpha[i] > 2:
            steep(scores[i], weights[i], alpha[i] - 1, wide, wide_p, where)
            continue
        if alpha[i] - 1 != beta:
            beta = max(alpha[i] - 1, 1e-20)
            high = -math.expm1(-beta * math.log(n)) / beta
            window = -math.expm1(beta * math.log(np.finfo(scores.dtype).tiny)) / beta  # below it p is no normal number
        _gentle(scores[i], weights[i], beta, high, window, u, p, where)


@compiled
def _sums(p: Any, g: Any, s: Any, beta: float, learned: bool, near: bool) -> Any:
    """Write s = p^{1−β}, and return Σs, Σsg and what ∂p/∂α needs: Σw, Σwg if near, else Σpg, Σp log p, Σgp log p."""
    T = p.dtype.type
    b, rest, ln2, inverse = T(beta), T(1 - beta), T(math.log(2)), T(1 / beta**2)
    total = total_g = x = y = z = 0.0
    for a in range(0, p.size, BLOCK):
        p_, g_, s_ = p[a : a + BLOCK], g[a : a + BLOCK], s[a : a + BLOCK]
        t, t_g, x_, y_, z_ = T(0), T(0), T(0), T(0), T(0)
        for j in range(p_.size):
            safe = p_[j] if p_[j] > 0 else T(1)
            s_[j] = log2(safe - T(1), safe)
        if learned and near:
            for j in range(p_.size):
                l = s_[j] * ln2
                value = exp2(rest * s_[j])
                value = value if p_[j] > 0 else T(0)
                direct = (value - p_[j] + p_[j] * (b * l)) * inverse
                w = p_[j] * l * l * exp_tail(b * l) if b * l > T(-0.5) else direct
                x_ += w
                y_ += w * g_[j]
        elif learned:
            for j in range(p_.size):
                pl = p_[j] * (s_[j] * ln2)
                x_ += p_[j] * g_[j]
                y_ += pl
                z_ += pl * g_[j]
        for j in range(p_.size):
            value = exp2(rest * s_[j])
            value = value if p_[j] > 0 else T(0)
            s_[j] = value
            t += value
            t_g += value * g_[j]
        total, total_g, x, y, z = total + t, total_g + t_g, x + x_, y + y_, z + z_
    return total, total_g, x, y, z


@compiled
def _gentle_back(weights: Any, gradient: Any, answer: Any, beta: float, learned: bool, p: Any, g: Any, s: Any, where: Any) -> float:
    """One row for 1 ≤ α ≤ 2: write the gradient of the scores, return that of α."""
    T = weights.dtype.type
    n = weights.size
    count, most = T(0), T(0)
    for j in range(n):
        count += T(1) if weights[j] > 0 else T(0)
        most = weights[j] if weights[j] > most else most
    if count == 0:  # everything is masked, or NaN
        answer[:] = weights
        return weights[0]
    gather = 2 * count < n
    if gather:
        m = 0
        for j in range(n):
            p[m] = weights[j]
            where[m] = j
            m += weights[j] > 0
        for k in range(m):
            g[k] = gradient[where[k]]
    else:
        m = n
        for j in range(n):
            p[j] = weights[j]
            g[j] = gradient[j] if weights[j] > 0 else T(0)
    full = -(-m // LANES) * LANES
    p[m:full] = 0
    g[m:full] = 0
    near = -beta * math.log(most) < 0.7
    total, total_g, x, y, z = _sums(p[:full], g[:full], s[:full], beta, learned, near)
    mean = total_g / total
    q = T(mean)
    if gather:
        answer[:] = 0
        for k in range(m):
            answer[where[k]] = s[k] * (g[k] - q)
    else:
        for j in range(n):
            answer[j] = s[j] * (g[j] - q)
    if near:
        return mean * x - y
    return (x - mean) / beta**2 - (z - mean * y) / beta


@compiled
def backward(start: int, stop: int, weights: Any, alpha: Any, gradient: Any, to_scores: Any, to_alpha: Any, learned: bool) -> None:
    """The gradients of scores (rows, n) and alpha (rows,) for that of the weights."""
    n = weights.shape[1]
    size = n + LANES
    p, g, s = np.empty(size, weights.dtype), np.empty(size, weights.dtype), np.empty(size, weights.dtype)
    where = np.empty(size, np.int32)
    for i in range(start, stop):
        beta = max(alpha[i] - 1, 1e-20)
        if beta > 1:
            to_alpha[i] = steep_back(weights[i], gradient[i], to_scores[i], beta)
            continue
        to_alpha[i] = _gentle_back(weights[i], gradient[i], to_scores[i], beta, learned, p, g, s, where)
