"""Sequences of different lengths as one tensor, and which of them to compute together."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from regard.core.tokens import PAD


def padded(rows: Sequence[Sequence[int]], device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
    """Tokens (b, n), shorter rows padded with PAD, and lengths (b,)."""
    lengths = [len(row) for row in rows]
    n = max(lengths, default=0)
    tokens = torch.tensor([[*row, *[PAD] * (n - len(row))] for row in rows], dtype=torch.long)
    return tokens.view(len(rows), n).to(device), torch.tensor(lengths, dtype=torch.long, device=device)


def batches_by_length(
    lengths: Sequence[int], positions: int, most: int | None = None, stretch: float = math.inf
) -> Iterator[list[int]]:
    """Indices of what is not empty, the shortest first, in batches of so many padded positions or fewer.

    A batch has at most `most` rows, and none is longer than `stretch` times its shortest.
    """
    some: list[int] = []
    for i in sorted((i for i, n in enumerate(lengths) if n), key=lambda i: lengths[i]):
        full = len(some) == most or (len(some) + 1) * lengths[i] > positions
        if some and (full or lengths[i] > stretch * lengths[some[0]]):
            yield some
            some = []
        some.append(i)
    if some:
        yield some
