"""Sinkhorn's rounds, matrix by matrix: products with one matrix A instead of exponentials in every round.

    exp(θᵢⱼ + fᵢ + gⱼ) = Aᵢⱼ uᵢ vⱼ,    A = exp(θ + a + b),    log u = f − a,    log v = g − b

While u and v stay near 1, a round is uᵢ = 1/Σⱼ Aᵢⱼvⱼ, then vⱼ = (m/n)/Σᵢ Aᵢⱼuᵢ. Where they leave [1/FAR, FAR]
the potentials f, g become the new a, b and A is computed again: with that, numbers behave as in log space.
(Schmitzer (2019), "Stabilized Sparse Scaling Algorithms for Entropy Regularized Transport Problems",
arXiv:1610.06519.) After the first row step no sum is below a power of 1/mn, so only the first column step
has to look for its maxima.

Backward walks the rounds in reverse. With Rₖ = exp(θ + fₖ + gₖ₋₁), rows summing to 1, and
Cₖ = exp(θ + fₖ + gₖ)·n/m, columns summing to 1, the differentials are dfₖ = −Rₖ(dθ + dgₖ₋₁) summed over
each row, dgₖ = −Cₖ(dθ + dfₖ) over each column.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.powers import exp2

FAR = 20.0  # how far, as a logarithm, u and v may go
PER_E = 1.4426950408889634  # log₂ e


@compiled
def exponentials(theta: Any, f: Any, g: Any, A: Any) -> None:
    """A = exp(θ + f + g), all exponents at most 0 but for rounding."""
    one = theta.dtype.type
    for i in range(theta.shape[0]):
        for j in range(theta.shape[1]):
            z = (np.float64(theta[i, j]) + f[i]) + g[j]  # large scores and potentials cancel
            A[i, j] = exp2(one(min(z, 0.0) * PER_E))


@compiled
def first(theta: Any, f: Any, b: Any) -> float:
    """The first row step, and b such that the highest exp(θ + f + b) of a column is 1; returns m/n."""
    m, n = theta.shape
    one = theta.dtype.type
    b[:] = np.inf
    rows, columns = 0, 0
    for i in range(m):
        top = theta[i].max()
        f[i] = 0.0
        if top == -np.inf:
            continue
        rows += 1
        total = one(0)
        for j in range(n):
            total += exp2((theta[i, j] - top) * one(PER_E))
        f[i] = -(np.float64(top) + np.log(np.float64(total)))
        for j in range(n):
            b[j] = min(b[j], -(np.float64(theta[i, j]) + f[i]))
    for j in range(n):
        columns += b[j] < np.inf
        b[j] = b[j] if b[j] < np.inf else 0.0
    return rows / max(columns, 1)


@compiled
def forward(start: int, stop: int, scores: Any, weights: Any, F: Any, G: Any) -> None:
    """Weights of matrices start … stop, and the potentials of every round: F (…, K + 1, m), G (…, K, n)."""
    m, n = scores.shape[1:]
    rounds = G.shape[1]
    one = scores.dtype.type
    A = np.empty((m, n), scores.dtype)
    u, v, sums = np.empty(m, scores.dtype), np.empty(n, scores.dtype), np.empty(n, scores.dtype)
    a, b = np.empty(m), np.empty(n)
    for r in range(start, stop):
        flawed = False
        for i in range(m):
            for j in range(n):
                flawed |= not scores[r, i, j] < np.inf
        if flawed:
            weights[r] = np.nan
            continue
        target = one(first(scores[r], F[r, 0], b))
        if rounds == 0:
            b[:] = 0
        far = np.inf
        for k in range(rounds + 1):
            if far > FAR:
                a[:] = F[r, k]
                if k > 0:
                    b[:] = G[r, k - 1]
                exponentials(scores[r], a, b, A)
                u[:] = 1
                v[:] = 1
            if k == rounds:
                break
            far = 0.0
            sums[:] = 0
            for i in range(m):
                for j in range(n):
                    sums[j] += A[i, j] * u[i]
            for j in range(n):
                v[j] = target / sums[j] if sums[j] > 0 else one(1)
                step = np.log(np.float64(v[j]))
                G[r, k, j] = b[j] + step
                far = max(far, abs(step))
            for i in range(m):
                total = one(0)
                for j in range(n):
                    total += A[i, j] * v[j]
                u[i] = one(1) / total if total > 0 else one(1)
                step = np.log(np.float64(u[i]))
                F[r, k + 1, i] = a[i] + step
                far = max(far, abs(step))
        for i in range(m):
            for j in range(n):
                weights[r, i, j] = A[i, j] * u[i] * v[j]


@compiled
def ratios(now: Any, base: Any, ratio: Any) -> float:
    """ratio = exp(now − base); returns the farthest exponent."""
    far = 0.0
    for i in range(len(now)):
        ratio[i] = np.exp(now[i] - base[i])
        far = max(far, abs(now[i] - base[i]))
    return far


@compiled
def backward(
    start: int, stop: int, scores: Any, weights: Any, F: Any, G: Any, gradient: Any, answer: Any
) -> None:
    """The gradient of the scores, through all rounds in reverse."""
    m, n = scores.shape[1:]
    rounds = G.shape[1]
    one = scores.dtype.type
    A = np.empty((m, n), scores.dtype)
    p, q = np.empty(m, scores.dtype), np.empty(n, scores.dtype)
    of_f, of_g, part = np.empty(m, scores.dtype), np.empty(n, scores.dtype), np.empty(n, scores.dtype)
    a, b, nothing = np.empty(m), np.empty(n), np.zeros(n)
    for r in range(start, stop):
        if weights[r, 0, 0] != weights[r, 0, 0]:
            answer[r] = np.nan
            continue
        rows = columns = 0
        of_f[:] = 0
        of_g[:] = 0
        part[:] = 0
        for i in range(m):
            total = one(0)
            for j in range(n):
                A[i, j] = weights[r, i, j]
                h = A[i, j] * gradient[r, i, j]
                answer[r, i, j] = h
                of_f[i] += h
                of_g[j] += h
                total += A[i, j]
                part[j] = max(part[j], scores[r, i, j] > -np.inf)
            rows += total > 0
        for j in range(n):
            columns += part[j] > 0
        share = one(columns / max(rows, 1))
        a[:] = F[r, rounds]
        b[:] = G[r, rounds - 1] if rounds else nothing
        for k in range(rounds, -1, -1):
            before = G[r, k - 1] if k else nothing
            if max(ratios(F[r, k], a, p), ratios(before, b, q)) > FAR:
                a[:] = F[r, k]
                b[:] = before
                exponentials(scores[r], a, b, A)
                p[:] = 1
                q[:] = 1
            for i in range(m):  # the row step: fₖ
                w = p[i] * of_f[i]
                for j in range(n):
                    h = A[i, j] * q[j] * w
                    answer[r, i, j] -= h
                    of_g[j] -= h
            if k == 0:
                break
            ratios(F[r, k - 1], a, p)  # the column step: gₖ₋₁
            for j in range(n):
                part[j] = q[j] * of_g[j] * share
                of_g[j] = 0
            for i in range(m):
                total = one(0)
                for j in range(n):
                    h = A[i, j] * part[j] * p[i]
                    answer[r, i, j] -= h
                    total -= h
                of_f[i] = total
