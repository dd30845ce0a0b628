"""Softmax under masks and with terms against torch's own; the memory of a map of one's own."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import attend
from regard.bench.memory import peak
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.bench.workloads import HEADS, attention_inputs, there, there_and_back
from regard.masks import Causal, Lengths, Mask, Window
from regard.positions import Bias
from regard.scores import ScaledDot

MODES = {"forward": there, "forward + backward": there_and_back}
BATCH = 4
CPU = torch.device("cpu")
NAMES = {
    "joined": "Causal() & Lengths(l)",
    "boolean": "a boolean mask (b, 1, n, n)",
    "added": "an added mask",
}


def of_masks(sizes: list[int] | None) -> Iterator[TimedCase]:
    """Masks, each against torch's kernel given the same as a tensor."""
    for n in sizes or [512, 2048]:
        for kind, name in NAMES.items():
            for mode in MODES:
                claim = Claim(
                    f"softmax with {name}, batch {BATCH}, n = 512 and 2,048",
                    "scaled_dot_product_attention with it as a tensor",
                    1.1,
                    1.0,
                )
                run = partial(_masked, kind, n, mode)
                yield TimedCase(
                    "masks", claim, f"softmax with {name}", run, mode, BATCH * HEADS * n, n, "normal"
                )


def _masked(kind: str, n: int, mode: str, effort: Effort) -> Measured:
    inputs = attention_inputs(n, "normal", BATCH)
    joined = Causal() & Lengths(torch.tensor([n, 3 * n // 4, n // 2, n]))
    noise = torch.Generator().manual_seed(n)
    mask: Mask | Tensor | None
    if kind == "added":
        given, mask = torch.randn(n, n, generator=noise), None
    elif kind == "boolean":
        given = mask = torch.rand(BATCH, 1, n, n, generator=noise) > 0.5
    else:
        given, mask = joined.rows(0, n, n, n, 2, CPU), joined
    score = ScaledDot() + Bias(given) if kind == "added" else ScaledDot()

    def ours(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return attend(query, keys, values, score=score, mask=mask).context

    def theirs(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return sdpa(query, keys, values, given)

    return Measured(*medians([partial(MODES[mode], go, *inputs) for go in (ours, theirs)], effort))


def of_windows(sizes: list[int] | None) -> Iterator[TimedCase]:
    """A window against all keys."""
    said = (
        "softmax with Window(64), n = 8,192, forward + backward",
        "scaled_dot_product_attention of all keys",
    )
    return _long("window", said, (0.2, 0.05), "softmax with Window(64)", _window, sizes)


def _window(n: int, effort: Effort) -> Measured:
    inputs = attention_inputs(n)

    def ours(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return attend(query, keys, values, mask=Window(64)).context

    return Measured(*medians([partial(there_and_back, go, *inputs) for go in (ours, sdpa)], effort))


def of_own_maps(sizes: list[int] | None) -> Iterator[TimedCase]:
    """The memory of a map of one's own."""
    said = "peak extra memory with a map of one's own, n = 8,192, forward + backward", "the built-in softmax"
    return _long("memory", said, (3.0, 1.5), "a map of one's own, peak memory", _own_map, sizes)


def _long(
    group: str,
    said: tuple[str, str],
    bounds: tuple[float, float],
    name: str,
    run: Callable[[int, Effort], Measured],
    sizes: list[int] | None,
) -> Iterator[TimedCase]:
    """Cases that are bounded from 8,192 keys on."""
    for n in sizes or [8192]:
        claim = Claim(*said, *(bounds if n >= 8192 else ()))
        yield TimedCase(group, claim, name, partial(run, n), "forward + backward", HEADS * n, n, "normal")


def _own_map(n: int, effort: Effort) -> Measured:
    (mebibytes, seconds), (others, other) = peak("attend:own", n), peak("attend:softmax", n)
    return Measured(seconds, other, mebibytes=mebibytes, against_mebibytes=others)
