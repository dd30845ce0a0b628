"""The cross-entropy of a linear layer's softmax, without all logits in memory at once.

    loss = −Σᵢ Σ_v tᵢᵥ log p_v(hᵢ),   p = softmax(W h + b),   t = (1 − ε) [v = yᵢ] + ε / V

    ∂loss/∂hᵢ = Wᵀ(pᵢ − tᵢ)       ∂loss/∂W = Σᵢ (pᵢ − tᵢ) hᵢᵀ       ∂loss/∂b = Σᵢ (pᵢ − tᵢ)

With a large vocabulary, the logits of a batch and their gradients are by far the largest tensors, and writing
them to memory costs more than computing them. Here a few hundred rows at a time stay in the cache, and the
gradients are computed in the forward pass, since they are known up to a factor. The smoothing term ε / V is a
mean over W, computed once.

Label smoothing: Szegedy et al. (2016), arXiv:1512.00567, §7.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from regard.core.errors import ShapeError

AT_ONCE = 1 << 20  # logits


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """The sum of the losses of logits hidden (t, d) · weight (V, d) + bias (V,) for target tokens (t,)."""
    if hidden.dim() != 2 or wanted.shape != hidden.shape[:1]:
        raise ShapeError(
            "hidden must be (t, d) and wanted (t,), one token for each; "
            f"got {tuple(hidden.shape)} and {tuple(wanted.shape)}."
        )
    whole = torch.is_autocast_enabled(hidden.device.type) or torch.compiler.is_compiling()
    if whole or not hidden.dtype == weight.dtype in (torch.float32, torch.float64):
        return _whole(hidden, weight, bias, wanted, smoothing)
    inputs = hidden, weight, bias
    learned = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    run: Callable[..., Tensor] = _InPieces.apply
    return run(*inputs, wanted, smoothing, learned)


def _whole(h: Tensor, w: Tensor, b: Tensor | None, y: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(F.linear(h, w, b), y, reduction="sum", label_smoothing=smoothing)


class _InPieces(Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, w: Tensor, b: Tensor | None, y: Tensor, smoothing: float, learned: bool
    ) -> Tensor:
        words, rows = len(w), min(max(1, AT_ONCE // len(w)), len(h))
        to_h, to_w = torch.empty_like(h), torch.zeros_like(w)
        to_b = None if b is None else torch.zeros_like(b)
        logits, log_p = h.new_empty(rows, words), h.new_empty(rows, words)
        mean_w, mean_b = w.mean(0), 0.0 if b is None else b.mean()  # over all words
        loss = h.new_zeros(())
        for part in range(0, len(h), max(rows, 1)):
            some, word = h[part : part + rows], y[part : part + rows].unsqueeze(-1)
            z, q = logits[: len(some)], log_p[: len(some)]  # (rows, V)
            torch.mm(some, w.t(), out=z) if b is None else torch.addmm(b, some, w.t(), out=z)
            torch.ops.aten._log_softmax.out(z, -1, False, out=q)
            loss -= q.gather(-1, word).sum()
            if smoothing:
                loss += smoothing * (z.gather(-1, word).squeeze(-1) - (some @ mean_w + mean_b)).sum()
            if learned:
                rest = q.exp_().scatter_add_(-1, word, q.new_full(word.shape, smoothing - 1))
                torch.mm(rest, w, out=to_h[part : part + rows])
                to_w.addmm_(rest.t(), some)
                if to_b is not None:
                    to_b += rest.sum(0)
        if learned:
            to_h -= smoothing * mean_w
            to_w -= smoothing / words * h.sum(0)
            if to_b is not None:
                to_b -= smoothing / words * len(h)
            ctx.smoothing = smoothing
            ctx.save_for_backward(h, w, b, y, to_h, to_w, to_b)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        h, w, b, y, *ready = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative may follow
            inputs = [x for x, needed in zip((h, w, b), ctx.needs_input_grad, strict=False) if needed]
            loss = _whole(h, w, b, y, ctx.smoothing)
            found = iter(torch.autograd.grad(loss, inputs, gradient, create_graph=True))
            ready = [next(found) if needed else None for needed in ctx.needs_input_grad[:3]]
            return *ready, None, None, None
        return *(None if x is None else gradient * x for x in ready), None, None, None
