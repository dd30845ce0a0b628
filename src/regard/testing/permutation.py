"""Does the order of the inputs matter?"""

from typing import Literal

import torch
from torch import Tensor

from regard.testing.perturbing import (
    Function,
    apart,
    as_it_was,
    by_place,
    call,
    check_places,
    rounding,
    spread,
)


def check_permutation(
    function: Function,
    *inputs: Tensor,
    outputs: Literal["move", "stay"] = "move",
    axis: int = 1,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    """Require that the order of the inputs (b, n, ...), all permuted alike, does not matter.

    Outputs (b, n, ...) must "move" with the inputs, as in self-attention without positions, or "stay", as in
    attention over a set; within atol, by default to rounding.
    """
    n = inputs[0].shape[axis]
    with as_it_was(function):
        before = call(function, seed, *inputs)
        if outputs == "move":
            check_places(before, n, axis)
        for order, what in _orders(n, seed):
            after = call(function, seed, *(x.index_select(axis, order.to(x.device)) for x in inputs))
            expected = before.index_select(axis, order.to(before.device)) if outputs == "move" else before
            moved = apart(expected, after)
            if moved.max() > (rounding(before) if atol is None else atol):
                t = f" {int(by_place(moved, axis).argmax())}" if moved.dim() > axis else ""
                raise AssertionError(
                    f"output{t} changed by {moved.max():.3g} when {what}: it sees the order."
                )


def _orders(n: int, seed: int) -> list[tuple[Tensor, str]]:
    """Two neighbours changed, the next two, …, all shuffled."""
    orders = []
    for j in spread(0, n - 1):
        order = torch.arange(n)
        order[j], order[j + 1] = j + 1, j
        orders.append((order, f"inputs {j} and {j + 1} changed places"))
    draw = torch.Generator().manual_seed(seed)
    return [*orders, (torch.randperm(n, generator=draw), "the inputs were shuffled")]
