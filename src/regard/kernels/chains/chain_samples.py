"""Exact samples of a chain: filter upwards once, then draw downwards, each key given the one after it.

Chib (1996), "Calculating Posterior Distributions and Modal Estimates in Markov Mixture Models", Journal of
Econometrics 75(1).
"""

from typing import Any

import numpy as np

from regard.kernels.chains.chain_kernel import look
from regard.kernels.common.compiled import compiled


@compiled
def drawn(p: Any, uniform: float) -> int:
    """The first state at which the sum of p (s,) is above `uniform`; never one of probability 0."""
    total, state = 0.0, 0
    for a in range(len(p)):
        if p[a] > 0:
            total += p[a]
            state = a
            if uniform < total:
                break
    return state


@compiled
def draw(
    start: int, stop: int, scores: Any, transitions: Any, which: Any, uniforms: Any, states: Any
) -> None:
    """Of rows start … stop: from uniforms (count, rows, n) the states, −1 at hidden keys."""
    _, n, s = scores.shape
    theta, Q, column = np.empty((n + 1, s)), np.empty((n, s, s)), np.empty(s)
    alpha, place, T = np.empty(s), np.empty(n + 1, np.int64), np.empty((s, s))
    for r in range(start, stop):
        T[:] = transitions[which[r]]
        count, _ = look(scores[r], T, theta, place, Q, alpha)
        for k in range(len(uniforms)):
            states[k, r] = -1
            column[:] = alpha
            for i in range(count - 1, -1, -1):
                state = drawn(column, uniforms[k, r, place[i]])
                states[k, r, place[i]] = state
                for a in range(s):
                    column[a] = Q[i, a, state]
