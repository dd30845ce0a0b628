"""Mechanisms by the clock: a window and causal linear attention against full attention and plain torch."""

from collections.abc import Iterator
from functools import partial

from torch import Tensor
from torch.nn import functional as F

from regard.attention import attend
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.bench.workloads import HEADS, Go, attention_inputs, there_and_back
from regard.kernels.attention.linear_operator import by_chunks
from regard.masks import Causal, Window
from regard.mechanisms.linear_attention import Elu

LARGE = 8192
SDPA = "scaled_dot_product_attention of all keys"


def window(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What `Local(window=128)` does with its heads."""
    return attend(query, keys, values, mask=Window(128)).context


def linear(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What `LinearAttention` does with its heads under a causal mask."""
    return attend(query, keys, values, score=Elu(), mask=Causal()).context


def chunked(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The same in plain torch, by chunks."""
    return by_chunks(F.elu(query) + 1, F.elu(keys) + 1, values)


def causal_sdpa(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """torch's own, causal."""
    return F.scaled_dot_product_attention(query, keys, values, is_causal=True)


def of_mechanisms(sizes: list[int] | None) -> Iterator[TimedCase]:
    """Windows and linear attention, forward + backward."""
    for n in sizes or [LARGE]:
        few = n >= LARGE
        compared: list[tuple[str, str, Go, Go, tuple[float, ...]]] = [
            ("local, window 128", SDPA, window, F.scaled_dot_product_attention, (0.1,)),
            ("linear attention, causal", SDPA, linear, F.scaled_dot_product_attention, (0.1,)),
            ("linear attention, causal", "chunks in plain torch", linear, chunked, (1.0, 0.7)),
            ("linear attention, causal", "scaled_dot_product_attention, causal", linear, causal_sdpa, ()),
        ]
        for what, against, ours, theirs, limits in compared:
            claim = Claim(f"{what}, n = 8,192, forward + backward", against, *(limits if few else ()))
            run = partial(_timed, ours, theirs, n)
            yield TimedCase("mechanisms", claim, what, run, "forward + backward", HEADS * n, n, "normal")


def _timed(ours: Go, theirs: Go, n: int, effort: Effort) -> Measured:
    inputs = attention_inputs(n)
    return Measured(*medians([partial(there_and_back, go, *inputs) for go in (ours, theirs)], effort))
