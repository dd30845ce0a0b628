"""The slow definitions: every row map in plain Python, by another route than the code under test.

Each takes one row of finite scores as a list and returns the weights as a list. Where the definition is a
minimum over a set, all candidates are tried; where it is an equation for τ, it is solved by bisection; both
with 40 digits, so that what comes out is the map and not the rounding.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
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
def entmax(theta: Exact, alpha: Decimal = Decimal("1.5")) -> Exact:
    """[(α − 1)θ − τ]₊^{1/(α − 1)} with τ such that the sum is 1; softmax at α = 1."""
    if alpha == 1:
        return _softmax(theta)
    alpha = Decimal(alpha)
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
