"""The gradients of α-entmax for one row and 1 ≤ α ≤ 2, from the weights p alone.

With β = α − 1, ℓ = log p, s = p^{1−β} and p̃ = s/Σs,

    (∂p/∂θ) g = s∘(g − p̃ᵀg)      ∂p/∂α = p̃ Σw − w,  w = p ℓ² φ(βℓ),  φ(z) = (e^{−z} − 1 + z)/z²

which is ½(p Σpℓ² − pℓ²) at α = 1. Where β|ℓ| is large for every key, w is mostly a multiple of s, which
cancels; then ∂p/∂α is better written (p − p̃)/β² − (pℓ − p̃ Σpℓ)/β. `entmax_operator` has the references.
"""

import math
from typing import Any

from regard.kernels.common.powers import exp2, exp_tail, log2
from regard.kernels.common.row_loops import inlined, largest
from regard.kernels.row_maps.entmax_le2 import BLOCK, padded
from regard.kernels.row_maps.gather import PARTS, fold, gather, groups_above


@inlined
def sums_near(p: Any, g: Any, s: Any, beta: float) -> Any:
    """Write s; return Σs, Σsg, Σw and Σwg, within a block. s comes in as log₂ p."""
    T = p.dtype.type
    b, rest, ln2, inverse = T(beta), T(1 - beta), T(math.log(2)), T(1 / beta**2)
    total, total_g, x, y = T(0), T(0), T(0), T(0)
    for j in range(p.size):
        log_p = s[j] * ln2
        value = exp2(rest * s[j]) if p[j] > 0 else T(0)
        s[j] = value
        total += value
        total_g += value * g[j]
        far = (value - p[j] + p[j] * (b * log_p)) * inverse
        w = p[j] * log_p * log_p * exp_tail(b * log_p) if b * log_p > T(-0.5) else far
        x += w
        y += w * g[j]
    return total, total_g, x, y


@inlined
def sums_far(p: Any, g: Any, s: Any, beta: float) -> Any:
    """Write s; return Σs, Σsg, Σpg, Σpℓ and Σpℓg, within a block. s comes in as log₂ p."""
    T = p.dtype.type
    rest, ln2 = T(1 - beta), T(math.log(2))
    total, total_g, x, y, z = T(0), T(0), T(0), T(0), T(0)
    for j in range(p.size):
        p_log = p[j] * (s[j] * ln2)
        value = exp2(rest * s[j]) if p[j] > 0 else T(0)
        s[j] = value
        total += value
        total_g += value * g[j]
        x += p[j] * g[j]
        y += p_log
        z += p_log * g[j]
    return total, total_g, x, y, z


@inlined
def sums(p: Any, g: Any, s: Any, beta: float, near: bool) -> Any:
    """Write s; return Σs, Σsg and three sums for ∂p/∂α."""
    T = p.dtype.type
    total = total_g = x = y = z = 0.0
    for a in range(0, p.size, BLOCK):
        p_, g_, s_ = p[a : a + BLOCK], g[a : a + BLOCK], s[a : a + BLOCK]
        for j in range(p_.size):
            safe = p_[j] if p_[j] > 0 else T(1)
            s_[j] = log2(safe - T(1), safe)
        if near:
            t, t_g, x_, y_ = sums_near(p_, g_, s_, beta)
        else:
            t, t_g, x_, y_, z_ = sums_far(p_, g_, s_, beta)
            z += z_
        total, total_g, x, y = total + t, total_g + t_g, x + x_, y + y_
    return total, total_g, x, y, z


@inlined
def entmax_le2_backward(weights: Any, gradient: Any, answer: Any, beta: float, spaces: Any) -> Any:
    """Write the gradient of one row of scores, and return that of α."""
    T = weights.dtype.type
    n = weights.size
    p, g, s, tops, groups, places = spaces
    tops = fold(weights, tops) if n > PARTS else weights
    best = largest(tops)
    if not best > 0:  # everything is masked, or NaN
        answer[:] = best
        return best
    sparse = n > PARTS and 5 * groups_above(tops, T(0), T(0)) < n
    m = n
    if sparse:
        m = gather(weights, tops, T(0), T(0), groups, p, places)
        for k in range(m):
            g[k] = gradient[places[k]]
    else:
        for j in range(n):
            p[j] = weights[j]
            g[j] = gradient[j] if weights[j] > 0 else T(0)
    p, g = padded(p, m, 0), padded(g, m, 0)
    near = -beta * math.log(best) < 0.7
    total, total_g, x, y, z = sums(p, g, s[: p.size], beta, near)
    mean = total_g / total
    q = T(mean)
    if sparse:
        answer[:] = 0
        for k in range(m):
            answer[places[k]] = s[k] * (g[k] - q)
    else:
        for j in range(n):
            answer[j] = s[j] * (g[j] - q)
    return mean * x - y if near else (x - mean) / beta**2 - (z - mean * y) / beta
