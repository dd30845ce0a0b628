"""Sparse attention by its definition, with all that can be added to the scores."""

import torch


def weights(theta, alpha):
    """The map by its definition: bisection for τ finds the support, a closed form on it has gradients."""
    z = (alpha - 1) * (theta - theta.amax(-1, keepdim=True).nan_to_num(neginf=0.0))
    with torch.no_grad():
        low, high = torch.full_like(z[..., :1], -1.0), torch.zeros_like(z[..., :1])
        for _ in range(60):
            tau = (low + high) / 2
            over = ((z - tau).clamp(min=0) ** (1 / (alpha - 1))).sum(-1, keepdim=True) > 1
            low, high = torch.where(over, tau, low), torch.where(over, high, tau)
        inside = z > low
    k = inside.sum(-1, keepdim=True).clamp(min=1).to(z.dtype)
    z = z.masked_fill(~inside, 0.0)
    mean = z.sum(-1, keepdim=True) / k
    if alpha == 2:
        return ((z - mean + 1 / k) * inside).clamp(min=0)
    spread = ((z - mean) ** 2 * inside).sum(-1, keepdim=True)
    return ((z - mean + ((1 - spread) / k).clamp(min=0).sqrt()) * inside).clamp(min=0) ** 2


def plain(
    query,
    keys,
    values,
    alpha,
    lo=None,
    hi=None,
    mask=None,
    bias=None,
    table=None,
    first=0,
    sink=None,
    cap=None,
):
    """The three steps in float64."""
    query, keys, values = query.double(), keys.double(), values.double()
    theta = query @ keys.mT
    m, n = theta.shape[-2:]
    i, j = torch.arange(m).unsqueeze(-1), torch.arange(n)
    if bias is not None:
        theta = theta + bias.double()
    if table is not None:
        rows = i if table.shape[-2] > 1 else torch.zeros_like(i)
        theta = theta + table.double()[..., rows, (j - i - first).clamp(0, table.shape[-1] - 1)]
    if cap is not None:
        theta = cap * torch.tanh(theta / cap)
    visible = torch.ones(theta.shape, dtype=torch.bool)
    visible = visible if lo is None else visible & (j >= lo.unsqueeze(-1))
    visible = visible if hi is None else visible & (j < hi.unsqueeze(-1))
    visible = visible if mask is None else visible & mask
    theta = theta.masked_fill(~visible, float("-inf"))
    if sink is not None:
        theta = torch.cat([theta, sink.double().unsqueeze(-1).expand(*theta.shape[:-1], 1)], -1)
    return weights(theta, alpha)[..., :n] @ values
