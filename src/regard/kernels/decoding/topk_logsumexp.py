"""The topk_logsumexp words of logits and what all words come to together; no gradient."""

import torch
from torch import Tensor

from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import over_rows


def topk_logsumexp(logits: Tensor, k: int, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest of logits (r, v) and their places, (r, k) each, and log Σ exp (r, 1), from `first` on."""
    logits = logits.detach()
    k = min(k, logits.shape[1] - first)
    if logits.dtype not in (torch.float32, torch.float64) or not is_plain(logits) or k < 1:
        logits = logits[:, first:].float() if logits.dtype.itemsize < 4 else logits[:, first:]
        values, places = logits.topk(k, -1)
        return values, places + first, logits.logsumexp(-1, keepdim=True)
    from regard.kernels.decoding.topk_logsumexp_kernel import forward

    rows = logits.contiguous()
    values, places = rows.new_empty(len(rows), k), rows.new_empty(len(rows), k, dtype=torch.long)
    whole = rows.new_empty(len(rows), 1)
    arrays = values.numpy(), places.numpy(), whole.view(-1).numpy()
    over_rows(forward, len(rows), rows.numel(), rows.numpy(), first, *arrays)
    return values, places, whole
