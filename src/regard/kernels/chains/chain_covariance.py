"""How marginals and pairs of a chain change: one more pass up and down.

Let G = Σ gᵢ[zᵢ] + Σ h[zᵢ₋₁, zᵢ]. Scores and transitions are the natural parameters of the chain, so
derivatives are covariances: of [zᵢ = a] with G for the scores, of the number of pairs (a, b) with G for the
transitions. Given zᵢ, what comes before and what comes after are independent. So let cᵢ be the expectation
of the terms of G up to i given zᵢ, and uᵢ/μᵢ that of the terms from i on, both less their means; with Q and
μ of `chain`,

    xᵢ[b] = gᵢ[b] + Σₐ Qᵢ[a, b] (cᵢ₋₁[a] + h[a, b])        cᵢ = xᵢ − μᵢᵀxᵢ
    wᵢ₋₁[a] = Σ_b Qᵢ[a, b] (uᵢ[b] + μᵢ[b] (h[a, b] − h̄ᵢ))        uᵢ = wᵢ + μᵢ (gᵢ − μᵢᵀgᵢ)
    cov([zᵢ = a], G) = μᵢ[a] cᵢ[a] + wᵢ[a]
    cov([zᵢ₋₁ = a, zᵢ = b], G) = Qᵢ[a, b] (μᵢ[b] (cᵢ₋₁[a] + h[a, b] − h̄ᵢ) + uᵢ[b])
"""

from typing import Any

import numpy as np

from regard.kernels.chains.chain_kernel import look, smooth
from regard.kernels.common.compiled import compiled


@compiled
def lean(mu: Any, g: Any, out: Any) -> None:
    """μ (g − μᵀg), for one key."""
    mean = 0.0
    for a in range(len(mu)):
        mean += mu[a] * g[a]
    for a in range(len(mu)):
        out[a] = mu[a] * (g[a] - mean)


@compiled
def upwards(count: int, Q: Any, mu: Any, g: Any, h: Any, c: Any) -> None:
    """c (count, s)."""
    s = mu.shape[1]
    for i in range(count):
        mean = 0.0
        for b in range(s):
            x = g[i, b]
            if i:
                for a in range(s):
                    x += Q[i, a, b] * (c[i - 1, a] + h[a, b])
            c[i, b] = x
            mean += mu[i, b] * x
        c[i] -= mean


@compiled
def downwards(count: int, Q: Any, mu: Any, g: Any, h: Any, c: Any, to_theta: Any, to_T: Any) -> None:
    """The covariances: to_theta (count, s) and to_T (s, s), from c (count, s)."""
    s = mu.shape[1]
    u, w = np.zeros(s), np.zeros(s)
    for i in range(count - 1, -1, -1):
        lean(mu[i], g[i], u)
        for a in range(s):
            to_theta[i, a] = mu[i, a] * c[i, a] + w[a]
            u[a] += w[a]
        if i == 0:
            break
        mean = 0.0
        for a in range(s):
            for b in range(s):
                mean += Q[i, a, b] * mu[i, b] * h[a, b]
        for a in range(s):
            w[a] = 0
            for b in range(s):
                after = u[b] + mu[i, b] * (h[a, b] - mean)
                w[a] += Q[i, a, b] * after
                to_T[a, b] += Q[i, a, b] * (mu[i, b] * c[i - 1, a] + after)


@compiled
def one(
    scores: Any,
    T: Any,
    g: Any,
    h: Any,
    to_scores: Any,
    to_T: Any,
    theta: Any,
    place: Any,
    Q: Any,
    alpha: Any,
    c: Any,
) -> None:
    """The covariances of one sequence; everything from theta on is scratch."""
    s = len(alpha)
    count, log = look(scores, T, theta, place, Q, alpha)
    to_scores[:] = 0
    to_T[:] = 0
    if count < 0 or log == -np.inf:
        to_scores[:] = np.nan
        to_T[:] = np.nan
    elif count > 0:
        mu, seen, answer = c[1], c[2], c[3]
        smooth(count, Q, alpha, mu, to_T)
        to_T[:] = 0
        for i in range(count):
            for a in range(s):
                seen[i, a] = g[place[i], a]
        upwards(count, Q, mu, seen, h, c[0])
        downwards(count, Q, mu, seen, h, c[0], answer, to_T)
        for i in range(count):
            to_scores[place[i]] = answer[i]


@compiled
def backward(
    start: int,
    stop: int,
    scores: Any,
    transitions: Any,
    which: Any,
    g: Any,
    h: Any,
    to_scores: Any,
    to_T: Any,
) -> None:
    """Of rows start … stop: from g (rows, n, s) and h (rows, s, s) the gradients, of the same shapes."""
    _, n, s = scores.shape
    theta, Q, c = np.empty((n + 1, s)), np.empty((n, s, s)), np.empty((4, n, s))
    alpha, place, T = np.empty(s), np.empty(n + 1, np.int64), np.empty((s, s))
    for r in range(start, stop):
        T[:] = transitions[which[r]]
        one(scores[r], T, g[r], h[r], to_scores[r], to_T[r], theta, place, Q, alpha, c)
