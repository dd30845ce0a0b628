"""Scores of a tile: 6 queries × 2 vectors of keys, computed in registers.

They are compared there with a floor per row, and only those above it reach memory.
"""

from typing import Any

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import above, add, fma, get, load, put, splat, store, width, zeros

TALL = 6  # queries in a tile: 6 × 2 sums, 2 vectors of keys and 1 query fill the 16 registers of AVX2


@inlined
def tile(
    queries: Any, q: int, panels: Any, p: int, d: int, extra: Any, floors: Any, f: int, out: Any, bits: Any
) -> bool:
    """Score 6 queries with 2 vectors of keys: extra + q·k. Is any above its row's floor?

    Then out and bits tell which.
    """
    w = width(panels)
    wide = 2 * w
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = e0 = e1 = f0 = f1 = zeros(panels)
    for _ in range(d):
        x, y = load(panels, p), load(panels, p + w)
        s = splat(panels, get(queries, q))
        a0, a1 = fma(s, x, a0), fma(s, y, a1)
        s = splat(panels, get(queries, q + 1))
        b0, b1 = fma(s, x, b0), fma(s, y, b1)
        s = splat(panels, get(queries, q + 2))
        c0, c1 = fma(s, x, c0), fma(s, y, c1)
        s = splat(panels, get(queries, q + 3))
        d0, d1 = fma(s, x, d0), fma(s, y, d1)
        s = splat(panels, get(queries, q + 4))
        e0, e1 = fma(s, x, e0), fma(s, y, e1)
        s = splat(panels, get(queries, q + 5))
        f0, f1 = fma(s, x, f0), fma(s, y, f1)
        p += wide
        q += TALL
    a0, a1 = add(a0, load(extra, 0)), add(a1, load(extra, w))
    b0, b1 = add(b0, load(extra, 2 * w)), add(b1, load(extra, 3 * w))
    c0, c1 = add(c0, load(extra, 4 * w)), add(c1, load(extra, 5 * w))
    d0, d1 = add(d0, load(extra, 6 * w)), add(d1, load(extra, 7 * w))
    e0, e1 = add(e0, load(extra, 8 * w)), add(e1, load(extra, 9 * w))
    f0, f1 = add(f0, load(extra, 10 * w)), add(f1, load(extra, 11 * w))
    s = splat(panels, get(floors, f))
    upper = above(a0, s) | above(a1, s) << w
    s = splat(panels, get(floors, f + 1))
    upper |= (above(b0, s) | above(b1, s) << w) << wide
    s = splat(panels, get(floors, f + 2))
    upper |= (above(c0, s) | above(c1, s) << w) << 2 * wide
    s = splat(panels, get(floors, f + 3))
    lower = above(d0, s) | above(d1, s) << w
    s = splat(panels, get(floors, f + 4))
    lower |= (above(e0, s) | above(e1, s) << w) << wide
    s = splat(panels, get(floors, f + 5))
    lower |= (above(f0, s) | above(f1, s) << w) << 2 * wide
    if upper | lower == 0:
        return False
    bits[0], bits[1] = upper, lower
    store(out, 0, a0)
    store(out, w, a1)
    store(out, 2 * w, b0)
    store(out, 3 * w, b1)
    store(out, 4 * w, c0)
    store(out, 5 * w, c1)
    store(out, 6 * w, d0)
    store(out, 7 * w, d1)
    store(out, 8 * w, e0)
    store(out, 9 * w, e1)
    store(out, 10 * w, f0)
    store(out, 11 * w, f1)
    return True


@compiled
def pack(start: int, stop: int, keys: Any, panels: Any) -> None:
    """Lay out keys (B, n, d) as tiles read them: panels (B, ⌈n / 2w⌉, d, 2w), zeros beyond n."""
    n, d = keys.shape[1:]
    many, wide = panels.shape[1], panels.shape[3]
    for panel in range(start, stop):
        b, j = panel // many, panel % many * wide
        for x in range(wide):
            for c in range(d):
                key = get(keys, (b * n + j + x) * d + c) if j + x < n else 0.0
                put(panels, (panel * d + c) * wide + x, key)


@inlined
def collect_many(out: Any, j: int, row: int, floor: Any, count: int, theta: Any, places: Any, at: int) -> int:
    """Append a row's scores above its floor, without a branch: good where many are. The new count."""
    wide = 2 * width(out)
    end = at + count
    for x in range(wide):
        score = get(out, row * wide + x)
        put(theta, end, score)
        put(places, end, j + x)
        end += score > floor
    return end - at


@inlined
def collect_all(out: Any, j: int, row: int, count: int, theta: Any, places: Any, at: int) -> int:
    """Append all scores of a row, as at the beginning, before there is a floor. The new count."""
    w: int = width(out)
    end = at + count
    store(theta, end, load(out, 2 * row * w))
    store(theta, end + w, load(out, (2 * row + 1) * w))
    for x in range(2 * w):
        put(places, end + x, j + x)
    return count + 2 * w
