"""Does padding matter to anything?"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.testing.perturbing import (
    Content,
    Function,
    apart,
    as_it_was,
    beside,
    call,
    check_places,
    fitting,
    gradients,
    replaced,
    rounding,
)

TO = {"random": "", "huge": " to huge numbers", "nan": " to NaN"}


def check_padding(
    function: Function,
    inputs: Tensor,
    real: Tensor,
    *,
    vocabulary: int | None = None,
    contents: Sequence[Content] = ("random", "huge", "nan"),
    more: int = 3,
    atol: float = 0.0,
    seed: int = 0,
) -> None:
    """Require that padding of inputs (b, n, ...) matters to no output: (b, n, ...), or (b, ...) if pooled.

    `real` says what is no padding, by booleans (b, n) or lengths (b,), and function(inputs, real) gets it so.
    Padding is replaced: outputs at real places must stay within atol, by default bit for bit. `more` of it is
    added: they must stay to rounding. Their gradients must be finite, and 0 at padding.
    """
    b, n = inputs.shape[:2]
    lengths = real.dtype != torch.bool
    kept = torch.arange(n) < real.cpu().reshape(-1, 1) if lengths else real.cpu()
    if kept.shape != (b, n):
        raise ValueError(f"real must be booleans {(b, n)} or lengths {(b,)}; got shape {tuple(real.shape)}.")
    with as_it_was(function):
        before = call(function, seed, inputs, real)
        longer = torch.cat([inputs, inputs[:, :1].expand(b, more, *inputs.shape[2:])], 1)
        still = torch.cat([kept, torch.zeros(b, more, dtype=torch.bool)], 1).to(real.device)
        after = call(function, seed, longer, real if lengths else still)
        pooled = after.shape == before.shape  # one output per sequence
        if not pooled:
            check_places(before, n, 1)
        counts = (
            torch.ones(b, 1, dtype=torch.bool) if pooled else kept
        )  # (b, n or 1): the outputs that matter
        for content in fitting(inputs, contents):
            for where, what in _changes(kept):
                filled = replaced(inputs, beside(where, inputs), content, vocabulary, seed)
                _check_still(before, call(function, seed, filled, real), counts, what + TO[content], atol)
        what = f"{more} places of padding were added"
        _check_still(before, after if pooled else after[:, :n], counts, what, max(atol, rounding(before)))
        _check_gradients(function, inputs, real, kept, counts, atol, seed)


def _changes(kept: Tensor) -> list[tuple[Tensor, str]]:
    """Where padding is changed, (b, n): at one place, at the next, …, everywhere."""
    places = [int(j) for j in (~kept).any(0).nonzero()]
    one_by_one = [(~kept & (torch.arange(kept.shape[1]) == j), f"padding at {j} was changed") for j in places]
    return [*one_by_one, (~kept, "all padding was changed")]


def _check_still(before: Tensor, after: Tensor, counts: Tensor, what: str, atol: float) -> None:
    moved = torch.where(counts, apart(before, after).reshape(*counts.shape, -1).amax(-1), 0)
    if moved.max() > atol:
        i, t = divmod(int(moved.argmax()), counts.shape[1])
        output, it = ("output", "it") if counts.shape[1] == 1 else (f"output {t}", f"position {t}")
        raise AssertionError(
            f"{output} of sequence {i} changed by {moved[i, t]:.3g} when {what}: {it} sees padding."
        )


def _check_gradients(
    function: Function, inputs: Tensor, real: Tensor, kept: Tensor, counts: Tensor, atol: float, seed: int
) -> None:
    leaf = inputs.detach().requires_grad_(inputs.is_floating_point())
    with torch.enable_grad():
        output = call(function, seed, leaf, real)
    found = gradients(output, beside(counts, output), seed)
    for x, gradient in found.items():
        if not gradient.isfinite().all():
            what = "the inputs" if x is leaf else f"a parameter of shape {tuple(x.shape)}"
            raise AssertionError(f"the gradient of {what} is not finite, outputs at padding left out.")
    if leaf in found:
        leak = torch.where(
            kept, 0, apart(torch.zeros_like(leaf), found[leaf]).reshape(*kept.shape, -1).amax(-1)
        )
        if leak.max() > atol:
            i, j = divmod(int(leak.argmax()), kept.shape[1])
            raise AssertionError(
                f"the outputs have gradient {leak.max():.3g} at padding {j} of sequence {i}."
            )
