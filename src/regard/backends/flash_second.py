"""Softmax attention by plain steps, tile by tile, for second derivatives, which the kernels do not have."""

import torch
from torch import Tensor

from regard.backends.flash_bias import HIDDEN
from regard.backends.flash_steps import Inputs, Softmax, part_of
from regard.backends.flash_tiles import Tile, pieces
from regard.kernels.attention.dropout_operator import dropped


def by_plain_steps(softmax: Softmax, inputs: Inputs) -> Tensor:
    """The context by plain steps, each query against all its keys, for second derivatives."""
    q, k, v, bias, table, sink, vectors = inputs
    a, b, g, m = q.shape[:4]
    blocks = []
    for tile in softmax.small(slow=len(softmax.tiles) > 1):
        rows = slice(tile.start, tile.stop)
        parts = []
        for one in range(g):
            if not tile.width:
                parts.append(q.new_zeros(a, b, tile.stop - tile.start, v.shape[-1]))
                continue
            query = q[:, :, one, rows]
            theta = query @ tile.keys(k).mT
            if bias is not None:
                own = part_of(bias, one)
                own = own if own.shape[-2] == 1 else own[..., rows, :]
                theta = theta + (own if own.shape[-1] == 1 else tile.keys(own, -1))
            if table is not None:
                theta = theta + _table(softmax, tile, part_of(table, one))
            if softmax.terms.cap is not None:
                theta = softmax.terms.cap * (theta / softmax.terms.cap).tanh()
            visible = softmax.terms.visible(tile, one, q.device)
            if softmax.causal:
                visible = torch.ones(theta.shape[-2:], dtype=torch.bool, device=q.device).tril()
            if visible is not None:
                theta = theta.masked_fill(~visible, HIDDEN)
            if sink is not None:
                more = part_of(sink, one)
                more = more if more.shape[-1] == 1 else more[..., rows]
                theta = torch.cat([theta, more.unsqueeze(-1).expand(*theta.shape[:-1], 1)], -1)
            dead = (theta == HIDDEN).all(-1, keepdim=True)
            p = theta.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)[..., : tile.width]
            if softmax.rate:
                p = p * _kept(softmax, tile, one, p, table is not None)
            z = p @ tile.keys(v)
            if softmax.band is not None and vectors is not None:
                z = z + softmax.band.per_distance(p, softmax.band.index(tile, False, q.device)) @ vectors
            parts.append(z)
        blocks.append(torch.stack(parts, 2))
    return torch.cat(blocks, -2)


def _table(softmax: Softmax, tile: Tile, table: Tensor) -> Tensor:
    """The bias by distance of a tile, written out."""
    i = torch.arange(tile.start, tile.stop, device=table.device).unsqueeze(-1)
    j = torch.arange(tile.first, tile.last, device=table.device)
    index = (j - i - softmax.terms.first).clamp(0, table.shape[-1] - 1)
    if table.shape[-2] == 1:
        return table.squeeze(-2)[..., index]
    own = table[..., tile.start : tile.stop, :]
    return own.gather(-1, index.expand(*own.shape[:-1], -1))


def _kept(softmax: Softmax, tile: Tile, g: int, p: Tensor, flipped: bool) -> Tensor:
    """What dropout multiplies the weights of a tile by."""
    kept = torch.ones_like(p)
    for number, (i, some) in enumerate(pieces(p.shape[0], p.shape[1], p.shape[2] * tile.width)):
        kept[i, some] = dropped(kept[i, some].detach(), softmax.rate, softmax.key(tile, g, number))
    return kept.flip(-2) if flipped else kept
