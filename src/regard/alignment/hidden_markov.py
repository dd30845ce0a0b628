"""The hidden Markov model of alignment: each target word looks at one source word, near the last one's.

    p(f, a | e) = Π_j p(a_j | a_{j−1}, n) t(f_j | e_{a_j}),      p(i | i', n) ∝ c(i − i')

a_j = 0 is the empty word, of probability p₀ at each step; after it, the next jump is counted from the last
word looked at. So a state is the last word looked at, or the place before the first, and all marginals are
exact, by the forward–backward algorithm. They are an attention: weights (m, n) of latent alignments.

Vogel, Ney & Tillmann (1996), "HMM-Based Word Alignment in Statistical Translation", COLING; the empty word as
in Och & Ney (2003).
"""

from typing import NamedTuple

import numpy as np

from regard.alignment.bitext import Floats


class Marginals(NamedTuple):
    """What is expected of the alignments of some sentence pairs."""

    links: Floats  # (b, m, n): p(a_j = i | e, f)
    jumps: Floats  # (n + 1, n): how often from the state before (first row: before the first word) to a word
    log_likelihood: float


def hidden_markov(lexical: Floats, empty: Floats, jumps: Floats, p0: float) -> Marginals:
    """Marginals given t(f_j | e_i) (b, m, n), t(f_j | empty) (b, m) and p(i | i') (n + 1, n)."""
    b, m, n = lexical.shape
    before = np.zeros((m + 1, b, n + 1))  # p(state | f_1 … f_j), state 0: no word looked at yet
    before[0, :, 0] = 1
    moved = np.empty((m, b, n))  # the part of it that looked at a word at step j
    scale = np.empty((m, b, 1))
    real, none = (1 - p0) * lexical, p0 * empty[..., None]
    for j in range(m):
        move = (before[j] @ jumps) * real[:, j]
        after = before[j] * none[:, j]
        after[:, 1:] += move
        scale[j] = after.sum(-1, keepdims=True)
        before[j + 1], moved[j] = after / scale[j], move / scale[j]
    links, counts, beta = np.empty((b, m, n)), np.zeros((n + 1, n)), np.ones((b, n + 1))
    for j in reversed(range(m)):
        links[:, j] = moved[j] * beta[:, 1:]
        ahead = real[:, j] * beta[:, 1:] / scale[j]
        counts += before[j].T @ ahead
        beta = ahead @ jumps.T + beta * none[:, j] / scale[j]
    return Marginals(links, counts * jumps, float(np.log(scale).sum()))


def independent(lexical: Floats, empty: Floats, p0: float) -> Marginals:
    """The same where every word is as near as every other: IBM model 1, which begins without jumps.

    Brown et al. (1993), "The Mathematics of Statistical Machine Translation".
    """
    n = lexical.shape[-1]
    real = (1 - p0) / n * lexical
    total = real.sum(-1) + p0 * empty
    return Marginals(real / total[..., None], np.zeros((n + 1, n)), float(np.log(total).sum()))
