"""Causal linear attention as an operator: the Numba kernel for plain tensors, chunks in pure torch otherwise.

    zᵢ = Σ_{j ≤ i} aᵢⱼ vⱼ / Σ_{j ≤ i} aᵢⱼ,      aᵢⱼ = φ(qᵢ) · φ(kⱼ) exp(cⱼ − cᵢ)

Nothing of size n × n. Second derivatives, transforms, the compiler and other devices take the pure torch
version, which is also what the kernel is tested against.

Katharopoulos et al. (2020), "Transformers are RNNs", arXiv:2006.16236, §3.3; in chunks: Hua et al. (2022),
arXiv:2202.10447, §3.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import load_kernels, over_rows

CHUNK = 64  # of the pure torch version


def causal(fq: Tensor, fk: Tensor, v: Tensor, c: Tensor | None = None) -> Tensor:
    """Context (..., n, d) of features fq, fk (..., n, f) and values (..., n, d); c (..., n) has no gradient.

    Where all that a query sees has features 0, its context is 0.
    """
    tensors = (fq, fk, v) if c is None else (fq, fk, v, c)
    if not is_plain(*tensors) or fq.dtype not in (torch.float32, torch.float64) or not fq.numel():
        return by_chunks(fq, fk, v, c)
    batch = torch.broadcast_shapes(fq.shape[:-2], fk.shape[:-2], v.shape[:-2])
    # contiguous out here: what forward saves must be its inputs, or a second derivative loses their graph
    flat = [_flat(t, batch, 2).contiguous() for t in (fq, fk, v)]
    run: Callable[..., Tensor] = _Causal.apply
    context = run(*flat, None if c is None else _flat(c.detach(), batch, 1))
    return context.reshape(*batch, *context.shape[-2:])


def by_chunks(fq: Tensor, fk: Tensor, v: Tensor, c: Tensor | None = None, size: int = CHUNK) -> Tensor:
    """The same in pure torch: sums before each chunk, products within it."""
    n = fq.shape[-2]
    more = -n % size
    fq, fk, v = (F.pad(t, (0, 0, 0, more)).unflatten(-2, (-1, size)) for t in (fq, fk, v))
    a = fq @ fk.mT  # (..., chunks, size, size)
    if c is None:
        a = a.tril()
        sums = (fk.mT @ v).cumsum(-3)  # (..., chunks, f, d)
        totals = fk.sum(-2).cumsum(-2)  # (..., chunks, f)
        near = fq
    else:
        last = c[..., -1:].expand(*c.shape[:-1], more)
        c = torch.cat([c, last], -1).unflatten(-1, (-1, size))  # (..., chunks, size)
        a = a * (c.unsqueeze(-2) - c.unsqueeze(-1)).clamp(max=0).exp().tril()
        ends = c[..., -1]
        before = torch.cat([c[..., :1, 0], ends[..., :-1]], -1)  # (..., chunks)
        keys = fk * (c - ends.unsqueeze(-1)).exp().unsqueeze(-1)
        near = fq * (before.unsqueeze(-1) - c).exp().unsqueeze(-1)
        products, parts = keys.mT @ v, keys.sum(-2)
        keep = (before - ends).exp()
        state, total = products[..., 0, :, :], parts[..., 0, :]
        found = [(state, total)]
        for at in range(1, products.shape[-3]):
            state = state * keep[..., at, None, None] + products[..., at, :, :]
            total = total * keep[..., at, None] + parts[..., at, :]
            found.append((state, total))
        sums, totals = torch.stack([s for s, _ in found], -3), torch.stack([t for _, t in found], -2)
    sums = F.pad(sums, (0, 0, 0, 0, 1, 0))[..., :-1, :, :]
    totals = F.pad(totals, (0, 0, 1, 0))[..., :-1, :]
    context = a @ v + near @ sums
    weight = a.sum(-1) + (near @ totals.unsqueeze(-1)).squeeze(-1)  # (..., chunks, size)
    context = context / torch.where(weight == 0, 1, weight).unsqueeze(-1)
    return context.flatten(-3, -2)[..., :n, :]


def _flat(tensor: Tensor, batch: torch.Size, axes: int) -> Tensor:
    own = tensor.shape[tensor.dim() - axes :]
    return tensor.expand(*batch, *own).reshape(-1, *own)


class _Causal(Function):
    """Of fq, fk (r, n, f), v (r, n, d) and c (r, n) or None."""

    @staticmethod
    def forward(ctx: Any, fq: Tensor, fk: Tensor, v: Tensor, c: Tensor | None) -> Tensor:
        kernels = load_kernels("regard.kernels.attention.linear_kernel")
        rows, n, f = fq.shape
        ctx.decays = c is not None
        at = fq.new_zeros(1, 1).expand(rows, n) if c is None else c.to(fq.dtype).contiguous()
        out, den = v.new_empty(rows, n, v.shape[-1]), v.new_empty(rows, n)
        arrays = [t.detach().numpy() for t in (fq, fk, v, at)]
        work = rows * n * f
        over_rows(kernels.forward, rows, work, *arrays, ctx.decays, out.numpy(), den.numpy())
        ctx.save_for_backward(fq, fk, v, at, out, den)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        fq, fk, v, at, out, den = ctx.saved_tensors
        if torch.is_grad_enabled() or not is_plain(gradient, fq, fk, v):  # a second derivative may follow
            with torch.enable_grad():
                inputs = [t.view_as(t) if t.requires_grad else t for t in (fq, fk, v)]
                again = by_chunks(inputs[0], inputs[1], inputs[2], at if ctx.decays else None)
                wanted = [t for t in inputs if t.requires_grad]
                found = iter(torch.autograd.grad(again, wanted, gradient, create_graph=True))
            return *(next(found) if t.requires_grad else None for t in inputs), None
        kernels = load_kernels("regard.kernels.attention.linear_kernel")
        grads = [torch.empty_like(t) for t in (fq, fk, v)]
        tensors = (fq, fk, v, at)
        arrays = [t.detach().numpy() for t in tensors]
        beside = [t.detach().contiguous().numpy() for t in (out, den, gradient)]
        rows, n, f = fq.shape
        over_rows(
            kernels.backward, rows, rows * n * f, *arrays, ctx.decays, *beside, *(g.numpy() for g in grads)
        )
        return *grads, None
