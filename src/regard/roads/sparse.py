import numpy as np
import torch

from regard.kernels import support as S
from regard.kernels.pool import over_rows

ROOM = 64


def prep(x):
    return x.detach().numpy()


def pack(keys):
    B, n, d = keys.shape
    wide = 2 * (32 // keys.element_size())
    panels = torch.empty(B, -(-n // wide), d, wide, dtype=keys.dtype)
    over_rows(S.pack, B, keys.numel(), prep(keys), panels.numpy())
    return panels


NOSTEPS = (0, 0, 0)


def fwd(q, k, v, lo, hi, half, room):
    B, m, d = q.shape
    n = k.shape[1]
    panels = pack(k)
    out = torch.empty(B, m, v.shape[2], dtype=q.dtype)
    groups = -(-m // S.GROUP)
    cap = B * groups * S.GROUP * room
    rows = (B, m) if room else (0, 0)
    floors = torch.empty(rows, dtype=q.dtype)
    begins = torch.empty(rows, dtype=torch.int64)
    sizes = torch.empty(rows, dtype=torch.int32)
    places = torch.empty(cap, dtype=torch.int32)
    weights = torch.empty(cap, dtype=q.dtype)
    mask = np.empty(0, np.bool_)
    over_rows(
        S.forward,
        B * groups,
        B * m * n,
        np.zeros(1, np.int64),
        prep(q),
        panels.numpy(),
        prep(v),
        lo.numpy(),
        hi.numpy(),
        mask,
        NOSTEPS,
        half,
        out.numpy(),
        floors.numpy(),
        begins.numpy(),
        sizes.numpy(),
        room,
        places.numpy(),
        weights.numpy(),
    )
    return out, floors, begins, sizes, places, weights


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, lo, hi, half):
        out, *st = fwd(q, k, v, lo, hi, half, min(ROOM, k.shape[1]))
        ctx.save_for_backward(q, k, v, lo, hi, *st)
        ctx.half = half
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, lo, hi, floors, begins, sizes, places, weights = ctx.saved_tensors
        B, m, d = q.shape
        n = k.shape[1]
        parts = max(1, min(8 // B, m // 256))
        dq = torch.empty_like(q)
        dk = torch.zeros(parts, *k.shape, dtype=q.dtype)
        dv = torch.zeros(parts, *v.shape, dtype=q.dtype)
        again = bool((sizes == S.AGAIN).any())
        panels = pack(k) if again else torch.empty(0, 0, 0, 2 * (32 // k.element_size()), dtype=k.dtype)
        mask = np.empty(0, np.bool_)
        over_rows(
            S.backward,
            B * parts,
            1 << 30,
            np.zeros(1, np.int64),
            prep(q),
            prep(k),
            prep(v),
            prep(g.contiguous()),
            panels.numpy(),
            lo.numpy(),
            hi.numpy(),
            mask,
            NOSTEPS,
            ctx.half,
            floors.numpy(),
            begins.numpy(),
            sizes.numpy(),
            places.numpy(),
            weights.numpy(),
            dq.numpy(),
            dk.numpy(),
            dv.numpy(),
        )
        return (
            dq,
            (dk[0] if parts == 1 else dk.sum(0)),
            (dv[0] if parts == 1 else dv.sum(0)),
            None,
            None,
            None,
        )


def sparse(q, k, v, *, alpha, lo=None, hi=None, mask=None):
    B, m, d = q.shape
    n = k.shape[1]
    lo = torch.zeros(B, m, dtype=torch.int32)
    hi = torch.full((B, m), n, dtype=torch.int32)
    half = 1.0 / alpha if alpha == 2.0 and False else (1.0 if alpha == 2 else 0.5)
    if torch.is_grad_enabled():
        return F.apply(q, k, v, lo, hi, half)
    return fwd(q, k, v, lo, hi, half, 0)[0]
