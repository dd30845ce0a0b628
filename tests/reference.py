"""The slow definitions: every row map in plain Python, by another route than the code under test.

Each takes one row of finite scores as a list and returns the weights as a list. Where the definition is a
minimum over a set, all candidates are tried; where it is an equation for τ, it is solved by bisection; both
with 40 digits, so that what comes out is the map and not the rounding.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import wraps
from itertools import combinations, pairwise, product
from typing import Any

Row = list[float]
Exact = list[Decimal]
ZERO, ONE = Decimal(0), Decimal(1)
TENTH = Decimal.from_float(0.1)


def exactly(definition: Callable[..., Exact]) -> Callable[..., Row]:
    """Let a definition count in decimals of 40 digits, and see only that."""

    def exact(setting: Any) -> Any:
        return Decimal(setting) if isinstance(setting, float) else setting

    @wraps(definition)
    def rounded(theta: Row, *settings: Any, **named: Any) -> Row:
        with localcontext(prec=40):
            theta = [Decimal(t) for t in theta]
            weights = definition(
                theta, *map(exact, settings), **{name: exact(s) for name, s in named.items()}
            )
            return [float(w) for w in weights]

    return rounded


def bisected(too_low: Callable[[Decimal], bool], low: Decimal, high: Decimal, digits: int = 20) -> Decimal:
    """The point between low and high where `too_low` turns from true to false."""
    while high - low > Decimal(10) ** -digits:
        middle = (low + high) / 2
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return (low + high) / 2


def _softmax(theta: Exact, temperature: Decimal = ONE) -> Exact:
    powers = [((t - max(theta)) / temperature).exp() for t in theta]
    return [p / sum(powers) for p in powers]


def _sparsemax(theta: Exact) -> Exact:
    best = None
    for size in range(1, len(theta) + 1):
        for support in combinations(range(len(theta)), size):
            tau = (sum(theta[j] for j in support) - 1) / size
            p = [theta[j] - tau if j in support else ZERO for j in range(len(theta))]
            distance = sum((a - b) ** 2 for a, b in zip(p, theta, strict=True))
            if min(p) >= 0 and (best is None or distance < best[0]):
                best = distance, p
    return best[1]


@exactly
def softmax(theta: Exact, temperature: Decimal = ONE) -> Exact:
    """exp(θ/γ) over its sum."""
    return _softmax(theta, temperature)


@exactly
def argmax(theta: Exact) -> Exact:
    """1 for the first of the highest."""
    best = sorted(range(len(theta)), key=lambda j: (-theta[j], j))[0]
    return [Decimal(j == best) for j in range(len(theta))]


@exactly
def sigmoid(theta: Exact) -> Exact:
    """1/(1 + exp(−θ))."""
    return [1 / (1 + (-t).exp()) for t in theta]


@exactly
def sparsemax(theta: Exact) -> Exact:
    """argmin ‖p − θ‖² over Δⁿ: try every support, keep the nearest point that is feasible."""
    return _sparsemax(theta)


@exactly
def entmax(theta: Exact, alpha: Decimal | Row = Decimal("1.5")) -> Exact:
    """[(α − 1)θ − τ]₊^{1/(α − 1)} with τ such that the sum is 1; softmax at α = 1. A list has one α."""
    alpha = Decimal(*alpha) if isinstance(alpha, list) else Decimal(alpha)
    if alpha == 1:
        return _softmax(theta)
    digits = int(14 * (alpha - 1)) + 20  # a weight of 1e−14 stands (1e−14)^(α − 1) above τ
    with localcontext(prec=digits + 16):
        z = [(alpha - 1) * t for t in theta]

        def weights(tau: Decimal) -> Exact:
            return [(t - tau) ** (1 / (alpha - 1)) if t > tau else ZERO for t in z]

        return weights(bisected(lambda tau: sum(weights(tau)) > 1, max(z) - 1, max(z), digits))


def entmax15(theta: Row) -> Row:
    """α-entmax at α = 1.5."""
    return entmax(theta, 1.5)


@exactly
def fusedmax(theta: Exact, strength: Decimal = TENTH, temperature: Decimal = ONE) -> Exact:
    """argmin ½‖p − θ/γ‖² + λ Σ |pⱼ − pⱼ₋₁| over Δⁿ: try every way to rise, stay or fall from key to key."""
    x = [t / temperature for t in theta]

    def cost(p: Exact) -> Decimal:
        distance = sum((a - b) ** 2 for a, b in zip(p, x, strict=True))
        return distance / 2 + strength * sum(abs(b - a) for a, b in pairwise(p))

    ways = product((-1, 0, 1), repeat=len(x) - 1)
    return min((p for steps in ways for p in _given_steps(x, strength, steps)), key=cost)


def _given_steps(x: Exact, strength: Decimal, steps: tuple[int, ...]) -> list[Exact]:
    """The points of Δⁿ that could be the minimum if |pⱼ − pⱼ₋₁| were steps·(pⱼ − pⱼ₋₁), or 0 at no step."""
    groups = [[0]]
    for j, step in enumerate(steps, 1):
        groups[-1].append(j) if step == 0 else groups.append([j])
    pull = [after - before for before, after in pairwise((0, *steps, 0))]  # −∂/∂pⱼ of Σ steps·(pⱼ − pⱼ₋₁)
    centres = [(sum(x[j] + strength * pull[j] for j in group) / len(group), len(group)) for group in groups]
    points = []
    for least, _ in centres:  # the support: the groups whose centre is at least this one
        inside = [(c, size) for c, size in centres if c >= least]
        tau = (sum(c * size for c, size in inside) - 1) / sum(size for _, size in inside)
        if least >= tau:
            points.append(
                [max(c - tau, ZERO) if c >= least else ZERO for c, size in centres for _ in range(size)]
            )
    return points


@exactly
def top_k_softmax(theta: Exact, k: int = 8) -> Exact:
    """Softmax of the k highest, the first at ties."""
    return _among_highest(_softmax, theta, k)


@exactly
def top_k_sparsemax(theta: Exact, k: int = 8) -> Exact:
    """Sparsemax of the k highest, the first at ties."""
    return _among_highest(_sparsemax, theta, k)


def _among_highest(of: Callable[[Exact], Exact], theta: Exact, k: int) -> Exact:
    kept = sorted(range(len(theta)), key=lambda j: (-theta[j], j))[:k]
    weights = dict(zip(kept, of([theta[j] for j in kept]), strict=True))
    return [weights.get(j, ZERO) for j in range(len(theta))]


@exactly
def bounded_softmax(theta: Exact, upper: Decimal | Row = ONE) -> Exact:
    """min(u, exp(θ − τ)) with τ such that the sum is 1; u itself if there is none."""
    return _bounded(lambda t, tau: (t - tau).exp(), theta, upper)


@exactly
def bounded_sparsemax(theta: Exact, upper: Decimal | Row = ONE) -> Exact:
    """min(u, [θ − τ]₊) with τ such that the sum is 1; u itself if there is none."""
    return _bounded(lambda t, tau: max(t - tau, ZERO), theta, upper)


def _bounded(weight: Callable[[Decimal, Decimal], Decimal], theta: Exact, upper: Decimal | Row) -> Exact:
    limits = [Decimal(u) for u in upper] if isinstance(upper, list) else [upper] * len(theta)
    limits = [min(max(u, ZERO), ONE) for u in limits]

    def weights(tau: Decimal) -> Exact:
        return [min(u, weight(t, tau)) for t, u in zip(theta, limits, strict=True)]

    if sum(limits) <= 1:
        return limits
    return weights(bisected(lambda tau: sum(weights(tau)) > 1, min(theta) - 50, max(theta) + 50))


Matrix = list[Row]


def sinkhorn(theta: Matrix, iterations: int = 20) -> Matrix:
    """Divide rows by their sums, then columns by n/m of theirs, so many times; rows once more at the end."""
    with localcontext(prec=60):
        p = [[Decimal(t).exp() for t in row] for row in theta]
        share = Decimal(len(p)) / len(p[0])
        for k in range(iterations + 1):
            p = [[w / sum(row) for w in row] for row in p]
            if k < iterations:
                sums = [sum(column) for column in zip(*p, strict=True)]
                p = [[share * w / s for w, s in zip(row, sums, strict=True)] for row in p]
        return [[float(w) for w in row] for row in p]


def column_softmax(theta: Matrix) -> Matrix:
    """exp θ over the sum of its column."""
    columns = [softmax(list(column)) for column in zip(*theta, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def two_way_softmax(theta: Matrix) -> Matrix:
    """exp θ over the sum of its row, times exp θ over the sum of its column."""
    return [
        [a * b for a, b in zip(softmax(row), column, strict=True)]
        for row, column in zip(theta, column_softmax(theta), strict=True)
    ]


def sparsemap_budget(theta: Row, k: int = 2) -> Row:
    """SparseMAP over all sets of at most k keys."""
    return _nearest_mixture(theta, {z: 0 for z in product((0, 1), repeat=len(theta)) if sum(z) <= k})


def _nearest_mixture(theta: Row, worth: dict[tuple[int, ...], Any]) -> Row:
    """μ = Σ p_z z for which θᵀμ + Σ p_z worth_z − ½‖μ‖² is highest: an active set, in fractions.

    Where p is best for the vertices in use, they have one slope; as long as another has a higher one it
    comes in, and p moves towards its best. A vertex whose p meets 0 on the way goes out.
    """
    value = {z: w + sum(Fraction(t) * on for t, on in zip(theta, z, strict=True)) for z, w in worth.items()}
    p = {max(value, key=value.get): Fraction(1)}
    while True:
        mu = [sum(weight * z[j] for z, weight in p.items()) for j in range(len(theta))]
        slope = {z: v - sum(m * on for m, on in zip(mu, z, strict=True)) for z, v in value.items()}
        steepest = max(slope, key=slope.get)
        if slope[steepest] == slope[next(iter(p))]:
            return [float(m) for m in mu]
        p[steepest] = Fraction(0)
        out = steepest
        while out is not None:
            direction, far = _towards_best(p, value)
            step, out = min((-p[z] / d, z) for z, d in direction.items() if d < 0)
            if far and step >= 1:
                step, out = 1, None
            p = {z: p[z] + step * direction[z] for z in p if z != out}


def _towards_best(
    p: dict[tuple[int, ...], Fraction], value: dict[Any, Fraction]
) -> tuple[dict[Any, Fraction], bool]:
    """The way to the best p of these vertices; or, and False, one along which it gets better without end."""
    used = list(p)
    size = len(used)
    rows = [[*(sum(a * b for a, b in zip(y, z, strict=True)) for z in used), 1, value[y]] for y in used]
    rows = [[Fraction(x) for x in row] for row in [*rows, [1] * size + [0, 1]]]  # Gp + ν1 = value, 1ᵀp = 1
    pivots = []
    for column in range(size + 1):
        at = next((r for r in range(len(pivots), size + 1) if rows[r][column]), None)
        if at is None:
            missing = column
            continue
        r = len(pivots)
        rows[r], rows[at] = rows[at], rows[r]
        rows[r] = [x / rows[r][column] for x in rows[r]]
        for other in range(size + 1):
            if other != r and rows[other][column]:
                rows[other] = [x - rows[other][column] * y for x, y in zip(rows[other], rows[r], strict=True)]
        pivots.append(column)
    if len(pivots) == size + 1:
        return {z: rows[r][-1] - p[z] for r, z in enumerate(used)}, True
    null = {column: -rows[r][missing] for r, column in enumerate(pivots)} | {missing: Fraction(1)}
    better = 1 if sum(null[c] * value[z] for c, z in enumerate(used)) > 0 else -1
    return {z: better * null[c] for c, z in enumerate(used)}, False


def continuous_softmax(theta: Row, basis: int = 32, ridge: float = 0.1) -> Row:
    """E[V(t)] under a Gaussian with the moments of the softmax, V by least squares; by quadrature."""
    import numpy as np

    def density(t: Any, mean: float, variance: float) -> Any:
        return np.exp(-((t - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    return _continuous(theta, basis, ridge, density, reach=9.0)


def continuous_sparsemax(theta: Row, basis: int = 32, ridge: float = 0.1) -> Row:
    """E[V(t)] under [−τ − (t − μ)²/2σ²]₊ with the moments of the softmax, V and E as above."""
    import numpy as np

    def density(t: Any, mean: float, variance: float) -> Any:
        scale = 2 / 3 * (5 * variance) ** 1.5  # σ², by the variance that [−τ − (t − μ)²/2σ²]₊ has
        tau = -0.5 * (1.5 / np.sqrt(scale)) ** (2 / 3)
        return np.maximum(-tau - (t - mean) ** 2 / (2 * scale), 0)

    return _continuous(theta, basis, ridge, density, reach=5**0.5)


def _continuous(theta: Row, basis: int, ridge: float, density: Callable[..., Any], reach: float) -> Row:
    import numpy as np

    n = len(theta)
    p = np.array(softmax(theta))
    where = (np.arange(n) + 0.5) / n
    mean = p @ where
    variance = p @ (where - mean) ** 2 + 1 / (12 * n**2)
    width = max(1 / (basis - 1), 1 / n)

    def psi(t: Any) -> Any:
        return np.exp(-((t[:, None] - np.linspace(0, 1, basis)) ** 2) / (2 * width**2))

    points, shares = np.polynomial.legendre.leggauss(24)
    edges = mean + np.sqrt(variance) * np.linspace(-reach, reach, 41)
    half = (edges[1] - edges[0]) / 2
    t = (edges[:-1, None] + half * (1 + points)).ravel()
    r = (density(t, mean, variance) * np.tile(half * shares, 40)) @ psi(t)
    stacked = np.vstack([psi(where), ridge**0.5 * np.eye(basis)])  # ‖ΨB − V‖² + λ‖B‖² as one system
    values = np.vstack([np.eye(n), np.zeros((basis, n))])
    return (r @ np.linalg.lstsq(stacked, values, rcond=None)[0]).tolist()


@exactly
def chain(theta: Exact, transitions: Decimal = ONE) -> Exact:
    """p(zᵢ = 1) ∝ Σ exp(Σ θᵢzᵢ + t · how often neighbours agree), over all z of 0 and 1."""
    ways = list(product((0, 1), repeat=len(theta)))
    chosen = [sum((t for t, on in zip(theta, z, strict=True) if on), ZERO) for z in ways]
    agreed = [sum(a == b for a, b in pairwise(z)) for z in ways]
    p = dict(
        zip(ways, _softmax([c + transitions * k for c, k in zip(chosen, agreed, strict=True)]), strict=True)
    )
    return [sum(p[z] for z in ways if z[i]) for i in range(len(theta))]


def sparsemap_chain(theta: Row, transitions: float | list[Row] = 1.0) -> Row:
    """SparseMAP over all z ∈ {0, 1}ⁿ, each worth Σ T[zᵢ, zᵢ₊₁] besides."""
    T = transitions if isinstance(transitions, list) else [[transitions, 0.0], [0.0, transitions]]
    every = product((0, 1), repeat=len(theta))
    return _nearest_mixture(theta, {z: sum(Fraction(T[a][b]) for a, b in pairwise(z)) for z in every})


def _nearest_matrix(theta: Matrix, vertices: list[tuple[tuple[int, ...], ...]]) -> Matrix:
    flat = _nearest_mixture(
        [t for row in theta for t in row], {tuple(x for row in z for x in row): 0 for z in vertices}
    )
    n = len(theta[0])
    return [flat[i : i + n] for i in range(0, len(flat), n)]


def _looking_at(keys: tuple[int, ...], n: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(j == key) for j in range(n)) for key in keys)


def sparsemap_matching(theta: Matrix) -> Matrix:
    """SparseMAP over all one-to-one matchings, m ≤ n: one column for each row, no column twice."""
    m, n = len(theta), len(theta[0])
    every = product(range(n), repeat=m)
    return _nearest_matrix(theta, [_looking_at(keys, n) for keys in every if len(set(keys)) == m])


def sparsemap_tree(theta: Matrix) -> Matrix:
    """SparseMAP over all projective trees: the root is its own head, and every word's descendants, itself
    among them, are neighbours in the sentence."""
    n = len(theta)

    def whole(heads: tuple[int, ...]) -> bool:
        roots = [i for i in range(n) if heads[i] == i]
        below = {j: {j} for j in range(n)}  # by passing words up to their heads, n times
        for _ in range(n):
            for i in range(n):
                below[heads[i]] |= below[i]
        return (
            len(roots) == 1
            and below[roots[0]] == set(range(n))
            and all(max(words) - min(words) + 1 == len(words) for words in below.values())
        )

    return _nearest_matrix(theta, [_looking_at(h, n) for h in product(range(n), repeat=n) if whole(h)])
