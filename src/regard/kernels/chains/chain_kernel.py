"""Chains of any number of states: filter upwards, then everything else from how each state looks back.

Upwards, α is the distribution of zᵢ given the scores so far. One step gives the next α, and the matrix

    Q[a, b] = p(zᵢ₋₁ = a | zᵢ = b) = αₐ exp T[a, b] / Σₐ' αₐ' exp T[a', b]

Downwards, the marginals are μᵢ₋₁ = Qᵢμᵢ and the pairs Qᵢ[a, b] μᵢ[b]; a sample of zᵢ₋₁ comes from a column
of Qᵢ.

Where transitions are narrow, α are probabilities: what T can do to them is bounded, so none underflows that
will be wanted again. With others, −inf among them, α are logarithms.

Rabiner (1989), "A Tutorial on Hidden Markov Models", Proceedings of the IEEE 77(2).
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled

NARROW = 40.0  # the widest range of transitions that are used as they are


@compiled
def narrow(T: Any) -> bool:
    """Whether transitions (s, s) are finite, and near enough to each other."""
    low, high = np.inf, -np.inf
    for x in T.flat:
        if not -np.inf < x < np.inf:
            return False
        low, high = min(low, x), max(high, x)
    return high - low <= NARROW


@compiled
def gather(scores: Any, theta: Any, place: Any) -> int:
    """The visible of scores (n, s) and their places; returns how many, −1 if a score is NaN or +inf."""
    n, s = scores.shape
    count = 0
    for i in range(n):
        visible = False
        for a in range(s):
            if not scores[i, a] < np.inf:
                return -1
            theta[count, a] = scores[i, a]
            visible |= scores[i, a] > -np.inf
        place[count] = i
        count += visible
    return count


@compiled
def filter_gently(theta: Any, T: Any, Q: Any, alpha: Any) -> Any:
    """Q (n, s, s) of theta (n, s), of which Q[0] is not used; the last α; returns log Z."""
    n, s = theta.shape
    top, total = T.max(), 0.0
    E, new = np.exp(T - top), np.ones(s)
    for i in range(n):
        if i:
            for b in range(s):
                new[b] = 0
            for a in range(s):
                for b in range(s):
                    Q[i, a, b] = alpha[a] * E[a, b]
                    new[b] += Q[i, a, b]
            for a in range(s):
                for b in range(s):
                    Q[i, a, b] /= new[b]
            total += top
        high, mass = theta[i].max(), 0.0
        for b in range(s):
            new[b] *= np.exp(theta[i, b] - high)
            mass += new[b]
        for b in range(s):
            alpha[b] = new[b] / mass
        total += high + np.log(mass)
    return total


@compiled
def filter_in_logs(theta: Any, T: Any, Q: Any, alpha: Any) -> Any:
    """As `filter_gently`, for any transitions; −inf or NaN if there is no distribution."""
    n, s = theta.shape
    new, total = np.zeros(s), 0.0
    for i in range(n):
        if i:
            for b in range(s):
                high, mass = -np.inf, 0.0
                for a in range(s):
                    Q[i, a, b] = alpha[a] + T[a, b]
                    high = max(high, Q[i, a, b])
                for a in range(s):
                    Q[i, a, b] = np.exp(Q[i, a, b] - high) if high > -np.inf else 0.0
                    mass += Q[i, a, b]
                for a in range(s):
                    Q[i, a, b] /= max(mass, 1.0)  # it is at least 1, but where b cannot be reached
                new[b] = high + np.log(mass)
        for b in range(s):
            new[b] += theta[i, b]
        high = new.max()
        total += high
        if not -np.inf < high < np.inf:
            return total
        for b in range(s):
            alpha[b] = new[b] - high
    mass = 0.0
    for b in range(s):
        alpha[b] = np.exp(alpha[b])
        mass += alpha[b]
    alpha /= mass
    return total + np.log(mass)


@compiled
def look(scores: Any, T: Any, theta: Any, place: Any, Q: Any, alpha: Any) -> tuple[int, float]:
    """Filter one sequence (n, s): how many are visible (−1: it is all NaN) and log Z (−inf: no path)."""
    count = gather(scores, theta, place)
    if count == 0:
        return 0, 0.0
    for x in T.flat:
        if not x < np.inf:
            count = -1
    if count < 0:
        return -1, np.nan
    if narrow(T):
        return count, filter_gently(theta[:count], T, Q, alpha)
    return count, filter_in_logs(theta[:count], T, Q, alpha)


@compiled
def smooth(count: int, Q: Any, alpha: Any, mu: Any, pairs: Any) -> None:
    """The marginals mu (count, s) and how often each pair is expected (s, s)."""
    s = len(alpha)
    mu[count - 1] = alpha
    pairs[:] = 0
    for i in range(count - 1, 0, -1):
        for a in range(s):
            mass = 0.0
            for b in range(s):
                both = Q[i, a, b] * mu[i, b]
                mass += both
                pairs[a, b] += both
            mu[i - 1, a] = mass


@compiled
def forward(
    start: int, stop: int, scores: Any, transitions: Any, which: Any, marginals: Any, pairs: Any, logs: Any
) -> None:
    """Marginals (rows, n, s), pairs (rows, s, s) and log Z (rows,) of rows start … stop."""
    _, n, s = scores.shape
    theta, mu, Q = np.empty((n + 1, s)), np.empty((n, s)), np.empty((n, s, s))
    alpha, place, T, N = np.empty(s), np.empty(n + 1, np.int64), np.empty((s, s)), np.empty((s, s))
    for r in range(start, stop):
        T[:] = transitions[which[r]]
        count, logs[r] = look(scores[r], T, theta, place, Q, alpha)
        marginals[r] = 0
        pairs[r] = 0
        if count < 0 or logs[r] == -np.inf:
            marginals[r] = np.nan
            pairs[r] = np.nan
        elif count > 0:
            smooth(count, Q, alpha, mu, N)
            pairs[r] = N
            for i in range(count):
                marginals[r, place[i]] = mu[i]


@compiled
def all_narrow(transitions: Any) -> bool:
    """Whether every one of (k, s, s) is."""
    fine = True
    for k in range(len(transitions)):
        fine &= narrow(transitions[k])
    return fine
