"""Vectors by distance, `RelativeValues`, on the sparse backend: some queries at a time, again in backward.

Vectors of far keys are added to the values. The weights of near keys come as columns of the context, by
values that are 1 for one key and 0 for all others: the backend sums the values of a row's support alone.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from regard.backends.blocks_again import filled, in_blocks, known
from regard.backends.call import Call
from regard.backends.flash_tiles import Tile
from regard.backends.flash_values import ROWS, band_of
from regard.backends.plain import plain
from regard.backends.sparse import sparse, takes
from regard.core.shapes import widened
from regard.positions.relative_values import RelativeValues


def with_values(call: Call) -> Tensor | None:
    """Context (..., m, d_v) of a call with `RelativeValues`; None if it is no call for the sparse backend."""
    if not takes(replace(call, value_term=None)) or band_of(call) is None:
        return None
    if not call.tracked:
        return filled(call, _cut(call), _context)
    tensors = known(call, _context)
    return None if tensors is None else in_blocks(call, _cut, _context, tensors)


def _cut(call: Call) -> Iterator[Call]:
    for start in range(0, call.m, ROWS):
        yield call.rows(start, min(start + ROWS, call.m))


def _context(block: Call) -> Tensor:
    band, term = band_of(block), block.value_term
    assert band is not None and isinstance(term, RelativeValues)
    tile, values = Tile(0, block.m, 0, block.n), widened(block.values)
    near, vectors = band.near(tile), term.a.to(values.dtype)
    one = values.new_zeros(block.n, near.width)
    one[near.first : near.last] = torch.eye(near.width, dtype=one.dtype)
    wide = torch.cat([band.shifted(tile, values, vectors), one.expand(*values.shape[:-1], -1)], -1)
    found = sparse(replace(block, values=wide, value_term=None))
    if found is None:
        return plain(block)[0]
    context, weights = found[..., : values.shape[-1]], found[..., values.shape[-1] :]
    index = band.index(near, False, values.device)
    return context + band.per_distance(weights, index) @ vectors
