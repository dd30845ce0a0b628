"""Does any position see the future?"""

import torch
from torch import Tensor

from regard.testing.perturbing import (
    Function,
    along,
    apart,
    as_it_was,
    by_place,
    call,
    check_places,
    fitting,
    gradients,
    replaced,
    spread,
)


def check_causal(
    function: Function,
    inputs: Tensor,
    *,
    axis: int = 1,
    vocabulary: int | None = None,
    atol: float = 0.0,
    seed: int = 0,
) -> None:
    """Require that output t depends on inputs up to t alone: (b, n, d), or tokens (b, n), to (b, n, ...).

    Inputs are replaced by random and by huge numbers (tokens: by others of the vocabulary), one at a time and
    all that follow. Earlier outputs must stay within atol, by default bit for bit, and their gradients be 0.
    """
    n = inputs.shape[axis]
    place = along(axis, inputs.dim(), torch.arange(n))
    changes = [(j, place == j, f"input {j} was changed") for j in spread(1, n)]
    changes += [(j, place >= j, f"inputs {j} to {n - 1} were changed") for j in spread(1, n)]
    with as_it_was(function):
        before = call(function, seed, inputs)
        check_places(before, n, axis)
        for content in fitting(inputs, ("random", "huge")):
            for j, where, what in changes:
                after = call(function, seed, replaced(inputs, where, content, vocabulary, seed))
                moved = by_place(apart(before, after), axis)[:j]
                if moved.max() > atol:
                    t = int(moved.argmax())
                    raise AssertionError(
                        f"output {t} changed by {moved[t]:.3g} when {what}: position {t} sees the future."
                    )
        if inputs.is_floating_point():
            _check_gradients(function, inputs, n, axis, atol, seed)


def _check_gradients(function: Function, inputs: Tensor, n: int, axis: int, atol: float, seed: int) -> None:
    """A leak through a dead zone, such as a ReLU that is shut here, still shows where it is open."""
    leaf = inputs.detach().requires_grad_()
    with torch.enable_grad():
        output = call(function, seed, leaf)
    for t in spread(0, n - 1):
        found = gradients(output, along(axis, output.dim(), torch.arange(n) == t), seed)
        if leaf in found:
            late = by_place(apart(torch.zeros_like(leaf), found[leaf]), axis)[t + 1 :]
            if late.max() > atol:
                raise AssertionError(
                    f"output {t} has gradient {late.max():.3g} at input {t + 1 + int(late.argmax())}: "
                    f"position {t} sees the future."
                )
