"""The block backend: the three steps for a few queries at a time, done again in backward.

Any score, any row map, any mask and term, at memory linear in n: nothing of size m × n outlives its block.
A map of the user's own is a row map too, unless it has an attribute that says otherwise, with the names that
`MAPS` has for it: `acts_on = "matrix"` if the weights of a row depend on other rows, `stochastic = True` if
it draws random numbers. (What draws them with torch's generator on the CPU is noticed without.)
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.backends.blocks_again import filled, in_blocks, known
from regard.backends.call import Call
from regard.backends.plain import plain
from regard.masks.mask import Given
from regard.scores.score import Score

LEAST = 1 << 17  # numbers held at once while scoring a block
SHARE = 16  # or the inputs' number divided by this, if that is more


def size(call: Call) -> int:
    """Numbers the plain backend would hold for this call."""
    return prod(call.batch) * call.m * call.n * int(getattr(call.score, "per_pair", 1))


def budget(call: Call) -> int:
    """Numbers of a block: so many that what is held beside the inputs stays below them."""
    return max(LEAST, (call.query.numel() + call.keys.numel() + call.values.numel()) // SHARE)


def by_rows(call: Call) -> bool:
    """Whether a map of the user's own may be given the rows in blocks."""
    if getattr(call.map, "acts_on", "row") != "row" or getattr(call.map, "stochastic", False):
        return False
    if torch.compiler.is_compiling() or call.query.device.type != "cpu":
        return True
    before = torch.get_rng_state()
    with torch.no_grad():
        one = call.rows(0, 1)
        visible = one.visible(0, 1)
        one.weights(one.scores(visible), visible)
    drew = not torch.equal(before, torch.get_rng_state())
    if drew:
        torch.set_rng_state(before)
    return not drew


def blocks(call: Call) -> Tensor:
    """Context (..., m, d_v)."""
    if not call.tracked:
        return filled(call, _cut(call), _context)
    tensors = known(call, _context)
    if tensors is not None:
        return in_blocks(call, _cut, _context, tensors)
    return torch.cat([checkpoint(_context, block, use_reentrant=False) for block in _cut(call)], -2)


def _cut(call: Call) -> Iterator[Call]:
    step = max(1, min(call.m, budget(call) * call.m // max(size(call), 1)))
    for start in range(0, call.m, step):
        yield _reached(call, start, min(start + step, call.m))


def _reached(call: Call, start: int, stop: int) -> Call:
    """The call for these queries, and without the keys that the sizes say they cannot see."""
    block = call.rows(start, stop)
    if call.mask is None or not _cuttable(call):
        return block
    first, last = call.mask.span(start, stop, call.m, call.n)
    if last - first == call.n or first == last:
        return block
    visible = call.mask.cells(start, stop, first, last, call.m, call.n, len(call.batch), call.query.device)
    keys, values = (t[..., first:last, :] for t in (call.keys, call.values))
    return replace(block, keys=keys, values=values, mask=Given(visible), place=None)


def _cuttable(call: Call) -> bool:
    """Whether a hidden key can be left out: a score of our own that compares pairs, a map that is known."""
    score = call.score
    return (
        isinstance(score, Score)
        and not score.uses_place
        and not score.looks_around
        and call.facts is not None
        and not getattr(call.map, "states", None)
    )


def _context(block: Call) -> Tensor:
    return plain(block)[0]
