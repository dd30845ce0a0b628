"""What the benchmarks run: inputs, candidates, and a step there and back."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import attend
from regard.bench.timed_case import SCALES

HEADS, WIDTH = 8, 64
Go = Callable[[Tensor, Tensor, Tensor], Tensor]


def attention_inputs(n: int, scale: str = "normal", batch: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query, keys, values and a gradient for the context, each (batch, heads, n, width), seeded.

    The scores are N(0, 1) to a good approximation; the scale multiplies the query.
    """
    noise = torch.Generator().manual_seed(n)
    query, keys, values, gradient = (torch.randn(batch, HEADS, n, WIDTH, generator=noise) for _ in range(4))
    return (query * SCALES[scale]).requires_grad_(), keys.requires_grad_(), values.requires_grad_(), gradient


def candidate(how: str) -> Go:
    """Attention by torch ("sdpa") or by regard with a map ("entmax15", …), "own" for one nobody knows."""
    if how == "sdpa":
        return F.scaled_dot_product_attention
    map: str | Callable[[Tensor], Tensor] = _own if how == "own" else how

    def go(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return attend(query, keys, values, map=map).context

    return go


def grouped_inputs(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same with two heads of keys and values, each for four of queries."""
    query, keys, values, gradient = attention_inputs(n)
    keys, values = (t.detach()[:, :2].clone().requires_grad_() for t in (keys, values))
    return query, keys, values, gradient


def grouped(how: str) -> Go:
    """Attention of such heads, by torch ("sdpa") or by regard with a map."""
    if how == "sdpa":
        return partial(F.scaled_dot_product_attention, enable_gqa=True)

    def go(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        groups = query.unflatten(1, (keys.shape[1], -1))
        return attend(groups, keys.unsqueeze(2), values.unsqueeze(2), map=how).context.flatten(1, 2)

    return go


def _own(scores: Tensor) -> Tensor:
    """Softmax, as somebody may write it."""
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def there(go: Go, query: Tensor, keys: Tensor, values: Tensor, gradient: Tensor) -> None:
    """Forward alone, with nothing kept for backward."""
    with torch.no_grad():
        go(query, keys, values)


def there_and_back(go: Go, query: Tensor, keys: Tensor, values: Tensor, gradient: Tensor) -> None:
    """Forward and backward."""
    torch.autograd.grad(go(query, keys, values), (query, keys, values), gradient)


def mean_support(how: str, query: Tensor, keys: Tensor, values: Tensor) -> float:
    """The mean number of keys with a weight, over the first queries of every head."""
    with torch.no_grad():
        weights = attend(query[..., :64, :], keys, values, map=how).weights
    return float((weights > 0).sum(-1).double().mean())


def map_inputs(rows: int, n: int, scale: str = "normal") -> tuple[Tensor, Tensor]:
    """Scores and a gradient for the weights, each (rows, n), seeded."""
    noise = torch.Generator().manual_seed(rows + n)
    scores, gradient = (torch.randn(rows, n, generator=noise) for _ in range(2))
    return (scores * SCALES[scale]).requires_grad_(), gradient


def map_there_and_back(map: Callable[..., Tensor], scores: Tensor, gradient: Tensor) -> None:
    """Forward and backward of a map, and of an α that is learned."""
    learned = [t for t in getattr(map, "keywords", {}).values() if isinstance(t, Tensor)]
    torch.autograd.grad(map(scores), [scores, *learned], gradient, allow_unused=True)  # softmax has no α
