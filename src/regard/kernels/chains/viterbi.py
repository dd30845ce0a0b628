"""Viterbi: the best assignment of states to a chain.

    z* = argmax_z Σᵢ θᵢ[zᵢ] + Σᵢ T[zᵢ, zᵢ₊₁]

The best score of a path that ends in each state is carried along the chain, with the state it came from.

Viterbi (1967), "Error Bounds for Convolutional Codes and an Asymptotically Optimum Decoding Algorithm", IEEE
Transactions on Information Theory 13(2).
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled


@compiled
def viterbi(scores: Any, transitions: Any, path: Any, best: Any, back: Any) -> float:
    """Write the best path of one sequence into `path` (n,) and return its score.

    For scores (n, s) and transitions (s, s), [from, to], C-contiguous and without NaN or +inf. A score or
    transition of −inf is forbidden. A position whose scores are all −inf is not there: its neighbours close
    up, and its path is −1. Among equal paths the lowest states win, the last position's first. Where
    everything is forbidden the score is −inf and the path all −1; the score of no positions is 0.

    Scratch: `best` (2, s) float64, `back` (n, s) int64. `path` is int64.
    """
    n, s = scores.shape
    began = False
    old, new = best[0], best[1]
    for i in range(n):
        hidden = True
        for state in range(s):
            hidden &= scores[i, state] == -np.inf
        if hidden:
            back[i, 0] = -1
            continue
        for state in range(s):
            top, origin = -np.inf, 0
            if not began:
                top = 0.0
            else:
                for before in range(s):
                    total = old[before] + transitions[before, state]
                    better = total > top
                    top = total if better else top
                    origin = before if better else origin
            new[state] = top + scores[i, state]
            back[i, state] = origin
        began = True
        old, new = new, old
    path[:] = -1
    if not began:
        return 0.0
    top, state = -np.inf, 0
    for last in range(s):
        if old[last] > top:
            top, state = old[last], last
    if top > -np.inf:
        for i in range(n - 1, -1, -1):
            if back[i, 0] >= 0:
                path[i] = state
                state = back[i, state]
    return top


@compiled
def best(start: int, stop: int, scores: Any, transitions: Any, which: Any, paths: Any, totals: Any) -> None:
    """Paths (rows, n) and totals (rows,) of rows start … stop; −1 and NaN where a score is NaN or +inf."""
    _, n, s = scores.shape
    now, back, T = np.empty((2, s)), np.empty((n, s), np.int64), np.empty((s, s))
    for r in range(start, stop):
        T[:] = transitions[which[r]]
        fine = True
        for x in scores[r].flat:
            fine &= x < np.inf
        for x in T.flat:
            fine &= x < np.inf
        paths[r] = -1
        totals[r] = viterbi(scores[r], T, paths[r], now, back) if fine else np.nan
