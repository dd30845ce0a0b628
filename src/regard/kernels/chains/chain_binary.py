"""Binary chains with transitions of a narrow range, eight rows at a time, in odds: filter up, smooth down.

With o = p(zᵢ = 1 | θ₁ … θᵢ) / p(zᵢ = 0 | θ₁ … θᵢ) and E = exp T, one step and what it says of the past are

    o' = exp(θᵢ₊₁) (E₀₁ + o E₁₁) / (E₀₀ + o E₁₀)
    q₁ = p(zᵢ = 1 | zᵢ₊₁ = 1) = o E₁₁ / (E₀₁ + o E₁₁)      q₀ = p(zᵢ = 1 | zᵢ₊₁ = 0) = o E₁₀ / (E₀₀ + o E₁₀)

and downwards pᵢ = q₁ pᵢ₊₁ + q₀ (1 − pᵢ₊₁). |log o| is at most |θᵢ| plus the range of T: nothing can overflow
while that is small, so no logarithm is needed. A |θ| above `FAR` counts as `FAR`: the weight is 0 or 1 to
1e-70 all the same.

The gradient of the scores is the covariance of zᵢ with G = Σ gⱼzⱼ. Given zᵢ, the keys before i and those
after are independent, so that zᵢ = 1 instead of 0 adds gᵢ + Lᵢ + Rᵢ to the expectation of G. With δ = q₁ −
q₀, v = p(1 − p) and U = v(g + R), two linear recursions give it, and that of the transitions:

    Lᵢ₊₁ = δᵢ (gᵢ + Lᵢ)        Uᵢ = vᵢgᵢ + δᵢUᵢ₊₁        cov(zᵢ, G) = vᵢLᵢ + Uᵢ
    cov([zᵢ = a, zᵢ₊₁ = b], G) = p(zᵢ = a | zᵢ₊₁ = b) (p(zᵢ₊₁ = b) (a − pᵢ) (gᵢ + Lᵢ) ± Uᵢ₊₁),  + for b = 1
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.powers import exp2

WIDTH = 8  # rows whose divisions overlap
FAR = 250.0
LOG2_E = 1.4426950408889634


@compiled
def gather(row: Any, odds: Any, place: Any) -> int:
    """exp θ of the visible keys and their places; returns how many, −1 if one is NaN or +inf."""
    n, hidden, flawed = len(row), 0, 0
    for j in range(n):
        hidden += row[j] == -np.inf
        flawed += not row[j] < np.inf
    if flawed:
        return -1
    count = 0
    if hidden:
        for j in range(n):
            odds[count], place[count] = row[j], j
            count += row[j] > -np.inf
    else:
        for j in range(n):
            odds[j], place[j] = row[j], j
        count = n
    for k in range(count):
        small = exp2(-LOG2_E * min(abs(odds[k]), FAR))
        odds[k] = 1 / small if odds[k] > 0 else small
    return count


@compiled
def upwards(
    first: int,
    stop: int,
    scores: Any,
    transitions: Any,
    which: Any,
    E: Any,
    odds: Any,
    place: Any,
    count: Any,
) -> None:
    """Filter rows first … stop, at most WIDTH of them: E (WIDTH, 2, 2), and odds, place and count of each."""
    longest = 0
    for lane in range(stop - first):
        T = transitions[which[first + lane]]
        highest = T.max()
        for a in range(2):  # an expression of arrays takes three seconds more to compile
            for b in range(2):
                E[lane, a, b] = np.exp(T[a, b] - highest)
        count[lane] = gather(scores[first + lane], odds[lane], place[lane])
        longest = max(longest, count[lane])
    for lane in range(WIDTH):
        if lane >= stop - first:
            E[lane], count[lane] = 1, 0
        odds[lane, max(count[lane], 0) : longest] = 1  # beyond a row's end
    for i in range(1, longest):
        for lane in range(WIDTH):
            o = odds[lane, i - 1]
            odds[lane, i] *= (E[lane, 0, 1] + o * E[lane, 1, 1]) / (E[lane, 0, 0] + o * E[lane, 1, 0])


@compiled
def downwards(odds: Any, E: Any, q1: Any, q0: Any, p: Any) -> None:
    """q₁, q₀ and p of the keys of one row, from their odds."""
    n = len(odds)
    e00, e01, e10, e11 = E[0, 0], E[0, 1], E[1, 0], E[1, 1]
    for i in range(n):
        one, zero = odds[i] * e11, odds[i] * e10
        q1[i] = one / (e01 + one)
        q0[i] = zero / (e00 + zero)
    x = odds[n - 1] / (1 + odds[n - 1])
    p[n - 1] = x
    for i in range(n - 2, -1, -1):
        x = min(q1[i] * x + q0[i] * (1 - x), 1.0)
        p[i] = x


@compiled
def forward(start: int, stop: int, scores: Any, transitions: Any, which: Any, weights: Any) -> None:
    """Weights (rows, n) of rows start … stop; which (rows,) of the transitions (k, 2, 2) each row has."""
    n = scores.shape[1]
    odds, place = np.empty((WIDTH, n + 1)), np.empty((WIDTH, n + 1), np.int64)
    E, count = np.empty((WIDTH, 2, 2)), np.empty(WIDTH, np.int64)
    q1, q0, p = np.empty((3, n))
    for first in range(start, stop, WIDTH):
        last = min(first + WIDTH, stop)
        upwards(first, last, scores, transitions, which, E, odds, place, count)
        for lane in range(last - first):
            m, row = count[lane], weights[first + lane]
            if m < n:
                row[:] = 0 if m >= 0 else np.nan
            if m > 0:
                downwards(odds[lane, :m], E[lane], q1, q0, p)
                for i in range(m):
                    row[place[lane, i]] = p[i]


@compiled
def covariances(g: Any, q1: Any, q0: Any, p: Any, to_scores: Any, to_T: Any) -> None:
    """Of one row, from g (n,), to to_scores (n,) and to_T (2, 2)."""
    n = len(g)
    left = 0.0
    for i in range(n):
        to_scores[i] = left
        left = (q1[i] - q0[i]) * (g[i] + left)
    after = 0.0  # Uᵢ₊₁
    to_T[:] = 0
    for i in range(n - 1, -1, -1):
        here = g[i] + to_scores[i]  # gᵢ + Lᵢ
        if i < n - 1:
            zero, one = (1 - p[i + 1]) * here, p[i + 1] * here
            to_T[0, 0] -= (1 - q0[i]) * (p[i] * zero + after)
            to_T[0, 1] -= (1 - q1[i]) * (p[i] * one - after)
            to_T[1, 0] += q0[i] * ((1 - p[i]) * zero - after)
            to_T[1, 1] += q1[i] * ((1 - p[i]) * one + after)
            after *= q1[i] - q0[i]
        v = p[i] * (1 - p[i])
        after += v * g[i]
        to_scores[i] = v * to_scores[i] + after


@compiled
def backward(
    start: int, stop: int, scores: Any, transitions: Any, which: Any, g: Any, to_scores: Any, to_T: Any
) -> None:
    """Of rows start … stop: from g (rows, n) the gradients to_scores (rows, n) and to_T (rows, 2, 2)."""
    n = scores.shape[1]
    odds, place = np.empty((WIDTH, n + 1)), np.empty((WIDTH, n + 1), np.int64)
    E, count = np.empty((WIDTH, 2, 2)), np.empty(WIDTH, np.int64)
    q1, q0, p, seen, answer = np.empty((5, n))
    T = np.empty((2, 2))
    for first in range(start, stop, WIDTH):
        last = min(first + WIDTH, stop)
        upwards(first, last, scores, transitions, which, E, odds, place, count)
        for lane in range(last - first):
            r, m = first + lane, count[lane]
            if m < n:
                to_scores[r] = 0 if m >= 0 else np.nan
            T[:] = 0 if m >= 0 else np.nan
            if m > 0:
                for i in range(m):
                    seen[i] = g[r, place[lane, i]]
                downwards(odds[lane, :m], E[lane], q1, q0, p)
                covariances(seen[:m], q1, q0, p, answer, T)
                for i in range(m):
                    to_scores[r, place[lane, i]] = answer[i]
            to_T[r] = T
