"""The total variation prox on a line, exactly.

    y = argmin_y ½‖y − x‖² + λ Σⱼ |yⱼ − yⱼ₋₁|

Let r₀ = 0, rₖ = x₁ + … + xₖ. The shortest string from r₀ to rₙ within the tube r ± λ has slope yₖ in step
k. It is straight between the points where it touches a wall: those stretches are the fused segments.

Two algorithms find where it bends. Condat's walks along the tube, remembers the steepest and the flattest
line that still fit, and when none does goes back to where the line touched: quickest on noise, quadratic on
smooth x. After a few n steps the taut string takes over, which is O(n) on everything: it keeps all corners
of a funnel, a convex chain along the upper wall and a concave one along the lower; each point enters and
leaves a chain once.

Condat (2013), "A Direct Algorithm for 1-D Total Variation Denoising", IEEE Signal Processing Letters 20(11);
Davies & Kovac (2001), "Local Extremes, Runs, Strings and Multiresolution", Annals of Statistics 29(1).
"""

from typing import Any

from regard.kernels.common.compiled import compiled

PATIENCE = 6  # steps per element before the taut string takes over


@compiled
def direct(x: Any, n: int, strength: float, patience: int, ends: Any, side: Any) -> int:
    """Condat's algorithm: the bends of x[:n] as in `bends`, or −1 if there is no end of going back."""
    count = first = k = 0  # segments so far; where the line starts; where we are
    low_k = high_k = 0  # where the flattest and the steepest line touched a wall last
    low, high = x[0] - strength, x[0] + strength  # their slopes
    below, above = strength, -strength  # how far the tube's middle lies from them, at k
    for _ in range(patience):
        last = k == n - 1
        if (below < 0) if last else (below + x[k + 1] - low < -strength):  # the flattest leaves: bend down
            ends[count], side[count] = low_k + 1, -1
            count += 1
            first = k = low_k = low_k + 1
            low, below = x[k], strength
            if last:
                above = x[k] + strength - high
            else:
                high, above, high_k = x[k] + 2 * strength, -strength, k
        elif (above > 0) if last else (above + x[k + 1] - high > strength):  # the steepest leaves: bend up
            ends[count], side[count] = high_k + 1, 1
            count += 1
            first = k = high_k = high_k + 1
            high, above = x[k], -strength
            if last:
                below = x[k] - strength - low
            else:
                low, below, low_k = x[k] - 2 * strength, strength, k
        elif last:
            ends[count], side[count] = n, 0
            return count + 1
        else:
            k += 1
            below += x[k] - low
            above += x[k] - high
            if below >= strength:
                low += (below - strength) / (k - first + 1)
                below, low_k = strength, k
            if above <= -strength:
                high += (above + strength) / (k - first + 1)
                above, high_k = -strength, k
    return -1


@compiled
def taut_string(x: Any, n: int, strength: float, ends: Any, side: Any, corners: Any) -> int:
    """The taut string: the bends of x[:n] as in `bends`."""
    uk, u, lk, l = corners  # noqa: E741  corners of the upper and lower chain: where, how high
    uk[0] = u[0] = lk[0] = l[0] = 0.0  # both begin at the last fixed point of the string
    u0 = u1 = l0 = l1 = count = 0  # first and last of each chain
    r = 0.0
    for k in range(1, n + 1):
        r += x[k - 1]
        wall = strength if k < n else 0.0
        high, low = r + wall, r - wall
        while u1 > u0 and (u[u1] - u[u1 - 1]) * (k - uk[u1]) >= (high - u[u1]) * (uk[u1] - uk[u1 - 1]):
            u1 -= 1
        if u1 == u0:  # straight to the new point, unless the lower wall is in the way
            while l1 > l0 and (high - l[l0]) * (lk[l0 + 1] - lk[l0]) < (l[l0 + 1] - l[l0]) * (k - lk[l0]):
                l0 += 1
                ends[count], side[count] = int(lk[l0]), -1
                count += 1
            u0 = u1 = 0
            uk[0], u[0] = lk[l0], l[l0]
        u1 += 1
        uk[u1], u[u1] = k, high
        while l1 > l0 and (l[l1] - l[l1 - 1]) * (k - lk[l1]) <= (low - l[l1]) * (lk[l1] - lk[l1 - 1]):
            l1 -= 1
        if l1 == l0:
            while u1 > u0 and (low - u[u0]) * (uk[u0 + 1] - uk[u0]) > (u[u0 + 1] - u[u0]) * (k - uk[u0]):
                u0 += 1
                ends[count], side[count] = int(uk[u0]), 1
                count += 1
            l0 = l1 = 0
            lk[0], l[0] = uk[u0], u[u0]
        l1 += 1
        lk[l1], l[l1] = k, low
    ends[count], side[count] = n, 0
    return count + 1


@compiled
def bends(x: Any, n: int, strength: float, ends: Any, side: Any, corners: Any) -> int:
    """Solve for x[:n], n ≥ 1; returns the number of segments.

    Segment s ends before ends[s]: there the string touches the upper wall (side[s] = 1), the lower (−1), or
    stops (0). The arrays hold n + 1 each, corners 4 × (n + 1).
    """
    count: int = direct(x, n, strength, PATIENCE * n + 8, ends, side)
    if count < 0:
        count = taut_string(x, n, strength, ends, side, corners)
    return count


@compiled
def heights(x: Any, strength: float, count: int, ends: Any, side: Any, height: Any) -> None:
    """The y of each segment: the mean of its x, moved by the walls it hangs between."""
    begin, before = 0, 0
    for s in range(count):
        total = 0.0
        for j in range(begin, ends[s]):
            total += x[j]
        height[s] = (total + strength * (side[s] - before)) / (ends[s] - begin)
        begin, before = ends[s], side[s]
