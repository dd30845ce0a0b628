"""What models add to attention: terms by distance, dropout, grouped queries, a window."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Attended, attend
from regard.bench.memory import peak
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.bench.workloads import HEADS, WIDTH, attention_inputs
from regard.masks import Window
from regard.positions import ALiBi, T5Bias
from regard.scores import ScaledDot
from regard.scores.score import Score

SDPA = "scaled_dot_product_attention"
TERMS = {  # limit and aim of softmax
    "ALiBi": (1.3, 1.1),
    "Transformer-XL": (1.9, 1.6),
    "T5 bias and its gradient": (1.9, 1.6),
}
BOTH = "forward + backward"


def settings_cases(sizes: list[int] | None) -> Iterator[TimedCase]:
    """The cases at these numbers of keys (default: the published ones)."""
    for n in sizes or [4096]:
        for map in ("softmax", "entmax15"):
            for term, bounds in TERMS.items():
                limits = () if n < 4096 else bounds if map == "softmax" else (1.0, 0.5)
                claim = Claim(f"{map} with {term}, {BOTH}, n = {n:,}", f"{SDPA} without a term", *limits)
                yield _case(claim, f"{map} with {term}", partial(_term, map, term, n), n)
    for n in sizes or [2048]:
        claim = Claim(f"entmax15 with dropout 0.1, {BOTH}, n = {n:,}", f"{SDPA} with dropout", 0.35, 0.25)
        yield _case(
            claim, "entmax15 with dropout 0.1", partial(_with, {"dropout": 0.1}, {"dropout_p": 0.1}, n), n
        )
    for n in sizes or [8192]:
        claim = Claim(
            f"entmax15 with Window(64), {BOTH}, n = {n:,}",
            f"{SDPA} without a window",
            *((0.2, 0.05) if n >= 8192 else ()),
        )
        yield _case(claim, "entmax15 with Window(64)", partial(_with, {"mask": Window(64)}, {}, n), n)


def grouped_memory(sizes: list[int] | None) -> Iterator[TimedCase]:
    """Peak memory where four heads share keys."""
    for n in sizes or [2048]:
        claim = Claim(
            f"8 heads, 2 key/value heads, entmax15, peak extra memory, {BOTH}, n = {n:,}",
            f"{SDPA} with enable_gqa", 1.0, 0.8,
        )  # fmt: skip
        yield _case(claim, "8 : 2 heads, entmax15, peak memory", partial(_grouped_peaks, n), n, "memory")


def _case(
    claim: Claim, what: str, run: Callable[[Effort], Measured], n: int, group: str = "settings"
) -> TimedCase:
    return TimedCase(group, claim, what, run, BOTH, HEADS * n, n, "normal")


def _measured(
    ours: Callable[[Tensor], Attended], theirs: Callable[[], Tensor], leaves: list[Tensor],
    others: list[Tensor], gradient: Tensor, effort: Effort,
) -> Measured:  # fmt: skip
    """Both there and back; `ours` takes the query, the first of the leaves."""
    query = leaves[0]

    def our_step() -> None:
        torch.autograd.grad(ours(query).context, leaves, gradient)

    def their_step() -> None:
        torch.autograd.grad(theirs(), others, gradient)

    with torch.no_grad():
        weights = ours(query[..., :64, :]).weights
    seconds, other = medians([our_step, their_step], effort)
    return Measured(seconds, other, float((weights > 0).sum(-1).double().mean()))


def _term(map: str, term: str, n: int, effort: Effort) -> Measured:
    query, keys, values, gradient = attention_inputs(n)
    leaves, others = [query, keys, values], [query, keys, values]
    score: Score = ScaledDot()
    if term == "Transformer-XL":  # a dot product of twice the width
        noise = torch.Generator().manual_seed(n)
        leaves[:2] = (torch.randn(1, HEADS, n, 2 * WIDTH, generator=noise).requires_grad_() for _ in range(2))
    elif term == "ALiBi":
        score = score + ALiBi(HEADS)
    else:
        score = score + T5Bias(HEADS)
        leaves.extend(score.parameters())

    def ours(query: Tensor) -> Attended:
        return attend(query, leaves[1], values, score=score, map=map)

    return _measured(ours, lambda: sdpa(query, keys, values), leaves, others, gradient, effort)


def _with(settings: dict[str, Any], theirs: dict[str, Any], n: int, effort: Effort) -> Measured:
    query, keys, values, gradient = attention_inputs(n)
    leaves = [query, keys, values]
    return _measured(
        lambda some: attend(some, keys, values, map="entmax15", **settings),
        lambda: sdpa(query, keys, values, **theirs), leaves, leaves, gradient, effort,
    )  # fmt: skip


def _grouped_peaks(n: int, effort: Effort) -> Measured:
    (mebibytes, seconds), (others, other) = peak("grouped:entmax15", n), peak("grouped:sdpa", n)
    return Measured(seconds, other, mebibytes=mebibytes, against_mebibytes=others)
