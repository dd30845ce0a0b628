"""The slow definition of a chain: every assignment of states to the visible keys, in torch."""

from itertools import product

import torch
from torch.nn.functional import one_hot


def enumerated(scores, T):
    """Of one row (n, s), all assignments: states (k, n, s) and pairs (k, s, s) in them, log p (k,), log Z.

    Differentiable in scores and T.
    """
    n, s = scores.shape
    visible = (scores > -torch.inf).any(-1).nonzero().squeeze(-1)
    ways = list(product(range(s), repeat=len(visible)))
    z = torch.tensor(ways, dtype=torch.int64).view(len(ways), len(visible))
    totals = scores[visible, z].sum(-1) + T[z[:, :-1], z[:, 1:]].sum(-1)
    states, pairs = scores.new_zeros(len(z), n, s), scores.new_zeros(len(z), s * s)
    states[:, visible] = one_hot(z, s).to(scores.dtype)
    if len(visible) > 1:
        pairs = one_hot(z[:, :-1] * s + z[:, 1:], s * s).sum(1).to(scores.dtype)
    log_z = totals.logsumexp(0)
    return states, pairs.view(-1, s, s), totals - log_z, log_z


def marginals(scores, T):
    """(n, s) of one row (n, s)."""
    states, _, log_p, _ = enumerated(scores, T)
    return torch.einsum("k,kia->ia", log_p.exp(), states)


def two_states(scores):
    """Scores (..., n, 2) of a binary chain: 0 for state 0, or −inf if the key is hidden."""
    return torch.stack([torch.zeros_like(scores).masked_fill(scores == -torch.inf, -torch.inf), scores], -1)
