"""Causal linear attention, chunk by chunk: a state of f × d numbers for all that lies before a chunk.

    aᵢⱼ = φ(qᵢ) · φ(kⱼ) exp(cⱼ − cᵢ)      zᵢ = Σ_{j ≤ i} aᵢⱼ vⱼ / Σ_{j ≤ i} aᵢⱼ

c never falls, so that no factor is above 1. Each function is given rows (heads of sequences) start to stop.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled

CHUNK = 32


@compiled
def add_product(out: Any, a: Any, b: Any, rows: int, inner: int, columns: int) -> None:
    """out[:rows, :columns] += a[:rows, :inner] @ b[:inner, :columns]; the last axes are contiguous."""
    even, fours = rows - rows % 2, inner - inner % 4
    for i in range(0, even, 2):
        for p in range(0, fours, 4):
            a0, a1, a2, a3 = a[i, p], a[i, p + 1], a[i, p + 2], a[i, p + 3]
            e0, e1, e2, e3 = a[i + 1, p], a[i + 1, p + 1], a[i + 1, p + 2], a[i + 1, p + 3]
            for j in range(columns):
                b0, b1, b2, b3 = b[p, j], b[p + 1, j], b[p + 2, j], b[p + 3, j]
                out[i, j] += a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3
                out[i + 1, j] += e0 * b0 + e1 * b1 + e2 * b2 + e3 * b3
        for p in range(fours, inner):
            a0, e0 = a[i, p], a[i + 1, p]
            for j in range(columns):
                out[i, j] += a0 * b[p, j]
                out[i + 1, j] += e0 * b[p, j]
    for i in range(even, rows):
        for p in range(inner):
            a0 = a[i, p]
            for j in range(columns):
                out[i, j] += a0 * b[p, j]


@compiled
def transpose(out: Any, a: Any, rows: int, columns: int) -> None:
    """out[:columns, :rows] = a[:rows, :columns].T"""
    for i in range(rows):
        for j in range(columns):
            out[j, i] = a[i, j]


@compiled
def decay(a: Any, c: Any, start: int, size: int, decays: bool) -> None:
    """Of a[:size, :size] the pairs i < j become 0, the others are multiplied by exp(cⱼ − cᵢ)."""
    for i in range(size):
        if decays:
            for j in range(i):
                a[i, j] *= np.exp(c[start + j] - c[start + i])
        for j in range(i + 1, size):
            a[i, j] = 0


@compiled
def shrink(state: Any, total: Any, factor: Any) -> None:
    """Multiply what is kept of the chunks before by factor, in place."""
    for p in range(total.shape[0]):
        total[p] *= factor
    for i in range(state.shape[0]):
        for j in range(state.shape[1]):
            state[i, j] *= factor


@compiled
def forward(
    start: int, stop: int, fq: Any, fk: Any, v: Any, c: Any, decays: bool, out: Any, den: Any
) -> None:
    """Context out (r, n, d) and denominators den (r, n) of features fq, fk (r, n, f) and values (r, n, d)."""
    n, f, d = fq.shape[1], fq.shape[2], v.shape[2]
    state, total = np.empty((f, d), fq.dtype), np.empty(f, fq.dtype)
    a, kt = np.empty((CHUNK, CHUNK), fq.dtype), np.empty((f, CHUNK), fq.dtype)
    near, keys = np.empty((CHUNK, f), fq.dtype), np.empty((CHUNK, f), fq.dtype)
    for r in range(start, stop):
        state[:], total[:] = 0, 0
        before = c[r, 0]
        for s in range(0, n, CHUNK):
            size = min(CHUNK, n - s)
            q, z = fq[r, s : s + size], out[r, s : s + size]
            end = c[r, s + size - 1]
            transpose(kt, fk[r, s : s + size], size, f)
            a[:] = 0
            add_product(a, q, kt, size, f, size)
            decay(a, c[r], s, size, decays)
            for i in range(size):
                factor = np.exp(before - c[r, s + i]) if decays else fq.dtype.type(1)
                found = fq.dtype.type(0)
                for p in range(f):
                    near[i, p] = q[i, p] * factor
                    found += near[i, p] * total[p]
                for j in range(i + 1):
                    found += a[i, j]
                den[r, s + i] = found
            z[:] = 0
            add_product(z, a, v[r, s : s + size], size, size, d)
            add_product(z, near, state, size, f, d)
            for i in range(size):
                found = den[r, s + i]
                if found != 0:
                    scale = 1 / found
                    for j in range(d):
                        z[i, j] *= scale
            if decays:
                shrink(state, total, np.exp(before - end))
            for i in range(size):
                factor = np.exp(c[r, s + i] - end) if decays else fq.dtype.type(1)
                for p in range(f):
                    keys[i, p] = fk[r, s + i, p] * factor
                    total[p] += keys[i, p]
            transpose(kt, keys, size, f)
            add_product(state, kt, v[r, s : s + size], f, size, d)
            before = end


@compiled
def backward(
    start: int, stop: int, fq: Any, fk: Any, v: Any, c: Any, decays: bool, out: Any, den: Any, grad: Any,
    dq: Any, dk: Any, dv: Any,
) -> None:  # fmt: skip
    """Gradients dq, dk (r, n, f) and dv (r, n, d) of the features and values, from that of the context."""
    n, f, d = fq.shape[1], fq.shape[2], v.shape[2]
    state, total = np.empty((d, f), fq.dtype), np.empty(f, fq.dtype)  # Σ v φ(k)ᵀ, Σ φ(k); later Σ g φ(q)ᵀ
    turned = np.empty((f, d), fq.dtype)
    a, w = np.empty((CHUNK, CHUNK), fq.dtype), np.empty((CHUNK, CHUNK), fq.dtype)
    at, wt = np.empty((CHUNK, CHUNK), fq.dtype), np.empty((CHUNK, CHUNK), fq.dtype)
    kt, vt, gt = (
        np.empty((f, CHUNK), fq.dtype),
        np.empty((d, CHUNK), fq.dtype),
        np.empty((d, CHUNK), fq.dtype),
    )
    g, e = np.empty((CHUNK, d), fq.dtype), np.empty(CHUNK, fq.dtype)
    scaled, keys = np.empty((CHUNK, d), fq.dtype), np.empty((CHUNK, f), fq.dtype)
    one = fq.dtype.type(1)
    for r in range(start, stop):
        state[:], total[:] = 0, 0
        before = c[r, 0]
        for s in range(0, n, CHUNK):  # dq, with the state of all keys before
            size = min(CHUNK, n - s)
            end = c[r, s + size - 1]
            _scaled(g, e, grad[r], out[r], den[r], s, size, d)
            transpose(vt, v[r, s : s + size], size, d)
            w[:] = 0
            add_product(w, g, vt, size, d, size)
            for i in range(size):
                for j in range(size):
                    w[i, j] += e[i]
            decay(w, c[r], s, size, decays)
            found = dq[r, s : s + size]
            found[:] = 0
            add_product(found, w, fk[r, s : s + size], size, size, f)
            for i in range(size):
                factor = np.exp(before - c[r, s + i]) if decays else one
                for j in range(d):
                    scaled[i, j] = g[i, j] * factor
                for p in range(f):
                    found[i, p] += e[i] * factor * total[p]
            add_product(found, scaled, state, size, d, f)
            if decays:
                shrink(state, total, np.exp(before - end))
            for i in range(size):
                factor = np.exp(c[r, s + i] - end) if decays else one
                for p in range(f):
                    keys[i, p] = fk[r, s + i, p] * factor
                    total[p] += keys[i, p]
            add_product(state, vt, keys, d, size, f)
            before = end
        state[:], total[:] = 0, 0
        last = (n - 1) // CHUNK * CHUNK
        for s in range(last, -1, -CHUNK):  # dk and dv, with the state of all queries after
            size = min(CHUNK, n - s)
            end = c[r, s + size - 1]
            before = c[r, s - 1] if s else c[r, 0]
            _scaled(g, e, grad[r], out[r], den[r], s, size, d)
            transpose(vt, v[r, s : s + size], size, d)
            transpose(kt, fk[r, s : s + size], size, f)
            a[:], w[:] = 0, 0
            add_product(a, fq[r, s : s + size], kt, size, f, size)
            add_product(w, g, vt, size, d, size)
            for i in range(size):
                for j in range(size):
                    w[i, j] += e[i]
            decay(a, c[r], s, size, decays)
            decay(w, c[r], s, size, decays)
            transpose(at, a, size, size)
            transpose(wt, w, size, size)
            into, more = dk[r, s : s + size], dv[r, s : s + size]
            into[:], more[:] = 0, 0
            add_product(into, wt, fq[r, s : s + size], size, size, f)
            add_product(more, at, g, size, size, d)
            for i in range(size):
                factor = np.exp(c[r, s + i] - end) if decays else one
                for j in range(d):
                    scaled[i, j] = v[r, s + i, j] * factor
                for p in range(f):
                    into[i, p] += factor * total[p]
                    keys[i, p] = fk[r, s + i, p] * factor
            add_product(into, scaled, state, size, d, f)
            transpose(turned, state, d, f)
            add_product(more, keys, turned, size, f, d)
            if decays:
                shrink(state, total, np.exp(before - end))
            for i in range(size):
                factor = np.exp(before - c[r, s + i]) if decays else one
                for p in range(f):
                    keys[i, p] = fq[r, s + i, p] * factor
                    total[p] += keys[i, p] * e[i]
            transpose(gt, g, size, d)
            add_product(state, gt, keys, d, size, f)


@compiled
def _scaled(g: Any, e: Any, grad: Any, out: Any, den: Any, s: int, size: int, d: int) -> None:
    """g = ∂z / den and e = −g · z, of one chunk; 0 where the denominator is."""
    for i in range(size):
        found = den[s + i]
        scale = 1 / found if found != 0 else found
        total = grad.dtype.type(0)
        for j in range(d):
            g[i, j] = grad[s + i, j] * scale
            total += g[i, j] * out[s + i, j]
        e[i] = -total
