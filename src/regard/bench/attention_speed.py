"""Attention against torch's own: time, memory, heads, one decoding step, and the import."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from regard.bench.attention_masks import of_masks, of_own_maps, of_windows
from regard.bench.attention_mechanisms import of_mechanisms
from regard.bench.attention_settings import grouped_memory, settings_cases
from regard.bench.attention_step import steps
from regard.bench.imports import seconds_to_import
from regard.bench.memory import peak
from regard.bench.timed_case import SCALES, Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.bench.workloads import (
    HEADS,
    WIDTH,
    attention_inputs,
    candidate,
    mean_support,
    there,
    there_and_back,
)
from regard.heads import MultiHead

SIZES = [512, 2048, 8192]
FEWER = {"sizes": SIZES[:1]}
MEMORY_SIZES = [2048, 8192, 16384]
GROUPS = [
    "sparse",
    "settings",
    "memory",
    "softmax",
    "masks",
    "window",
    "mechanisms",
    "heads",
    "decoding",
    "import",
]
SDPA = "scaled_dot_product_attention"
MODES = {"forward": there, "forward + backward": there_and_back}
FORWARD = {"normal": (1.4, 0.75), "peaked": (1.1, 0.75)}  # limit, aim, from 2,048 keys on
BOTH = {"normal": (0.6, 0.30), "peaked": (0.4, 0.20), "flat": (2.5, None)}


def cases(only: list[str] | None = None, sizes: list[int] | None = None) -> list[TimedCase]:
    """The cases of these groups (default: all), at these numbers of keys (default: the published ones)."""
    makers: dict[str, Callable[[list[int] | None], Iterator[TimedCase]]] = {
        "sparse": _sparse, "settings": settings_cases, "memory": _memory, "softmax": _softmax,
        "masks": of_masks, "window": of_windows, "mechanisms": of_mechanisms, "heads": _heads,
        "decoding": steps, "import": _import,
    }  # fmt: skip
    return [case for group in only or GROUPS for case in makers[group](sizes)]


def _sparse(sizes: list[int] | None) -> Iterator[TimedCase]:
    for n in sizes or SIZES:
        for scale in SCALES:
            for mode in MODES:
                what = "scaled dot + entmax15"
                run = partial(_attention, "entmax15", n, scale, 1, mode)
                yield TimedCase("sparse", _sparse_claim(n, scale, mode), what, run, mode, HEADS * n, n, scale)


def _sparse_claim(n: int, scale: str, mode: str) -> Claim:
    what = f"scaled dot + entmax15 attention, {mode}"
    bounds = (FORWARD if mode == "forward" else BOTH).get(scale)
    if n < 2048:
        return Claim(f"{what}, n = 512", SDPA)
    says = f"{what}, n = 2,048 and 8,192, {scale}"
    return Claim(says, SDPA) if bounds is None else Claim(says, SDPA, *bounds)


def _attention(how: str, n: int, scale: str, batch: int, mode: str, effort: Effort) -> Measured:
    inputs = attention_inputs(n, scale, batch)
    seconds, other = medians([partial(MODES[mode], candidate(one), *inputs) for one in (how, "sdpa")], effort)
    return Measured(seconds, other, None if how == "softmax" else mean_support(how, *inputs[:3]))


def _memory(sizes: list[int] | None) -> Iterator[TimedCase]:
    for n in sizes or MEMORY_SIZES:
        what = "scaled dot + entmax15, peak memory"
        claim = Claim("peak extra memory, forward + backward, n = 16,384", SDPA, 1.75)
        if n != 16384:
            claim = Claim(f"peak extra memory, forward + backward, n = {n:,}", SDPA)
        yield TimedCase(
            "memory", claim, what, partial(_peaks, n), "forward + backward", HEADS * n, n, "normal"
        )
    yield from grouped_memory(sizes)
    yield from of_own_maps(sizes)


def _peaks(n: int, effort: Effort) -> Measured:
    (mebibytes, seconds), (others, other) = peak("attend:entmax15", n), peak("attend:sdpa", n)
    return Measured(seconds, other, mebibytes=mebibytes, against_mebibytes=others)


def _softmax(sizes: list[int] | None) -> Iterator[TimedCase]:
    for n in sizes or SIZES[:2]:
        for batch in (1, 8):
            for mode in MODES:
                claim = Claim("softmax backend, batch 1 and 8, n = 512 and 2,048", SDPA, 1.1)
                run = partial(_attention, "softmax", n, "normal", batch, mode)
                what = f"scaled dot + softmax, batch {batch}"
                yield TimedCase("softmax", claim, what, run, mode, batch * HEADS * n, n, "normal")


def _heads(sizes: list[int] | None) -> Iterator[TimedCase]:
    for n in sizes or SIZES[:2]:
        for batch in (1, 8):
            for mode in MODES:
                claim = Claim(
                    "MultiHead with softmax, batch 1 and 8, n = 512 and 2,048", "nn.MultiheadAttention", 1.1
                )
                what = f"MultiHead with softmax, batch {batch}"
                yield TimedCase(
                    "heads", claim, what, partial(_multi_head, n, batch, mode), mode, batch * HEADS * n, n
                )


def _multi_head(n: int, batch: int, mode: str, effort: Effort) -> Measured:
    """Self-attention of (batch, n, 512): ours against torch's, which is not asked for weights."""
    width = HEADS * WIDTH
    noise = torch.Generator().manual_seed(n)
    x, gradient = (torch.randn(batch, n, width, generator=noise) for _ in range(2))
    x.requires_grad_()
    ours, theirs = MultiHead(width, HEADS), nn.MultiheadAttention(width, HEADS, batch_first=True)

    def our_step() -> torch.Tensor:
        context: torch.Tensor = ours(x).context
        return context

    def their_step() -> torch.Tensor:
        context: torch.Tensor = theirs(x, x, x, need_weights=False)[0]
        return context

    steps = [
        partial(_step, our_step, ours, x, gradient, mode),
        partial(_step, their_step, theirs, x, gradient, mode),
    ]
    return Measured(*medians(steps, effort))


def _step(go: Callable[[], torch.Tensor], module: nn.Module, x: Any, gradient: Any, mode: str) -> None:
    if mode == "forward":
        module.eval()
        with torch.no_grad():
            go()
    else:
        module.train()
        torch.autograd.grad(go(), (x, *module.parameters()), gradient)


def _import(sizes: list[int] | None) -> Iterator[TimedCase]:
    claim = Claim("import regard", "import torch", 1.2)
    yield TimedCase("import", claim, "import regard", _imports)


def _imports(effort: Effort) -> Measured:
    times = seconds_to_import(["regard", "torch"], rounds=max(3, effort.least))
    return Measured(*times)
