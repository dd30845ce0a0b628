"""C14–C19 and C21: softmax, sparsemax and entmax as one family, their thresholds, Jacobians and α."""

import math
import random
from functools import cmp_to_key, partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor, nn

from regard.attention import attend
from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.quick import few
from regard.claims.toy_pairs import exponent
from regard.claims.weights_not_unique import normal
from regard.maps import Entmax, argmax, entmax, softmax, sparsemax

ALPHAS = [1.0, 1.25, 1.5, 2.0, 3.0]
entry = partial(claim, group="Scores and maps", fixed="a82a066", exact=True)


def regularizer(p: Tensor, alpha: float) -> Tensor:
    """Ω(p) = Σ p log p at α = 1, else Σ pᵅ / α(α − 1)."""
    return torch.special.xlogy(p, p).sum(-1) if alpha == 1 else (p**alpha).sum(-1) / (alpha * (alpha - 1))


def solved(theta: Tensor, alpha: float) -> Tensor:
    """argmax pᵀθ − Ω(p) over the simplex, as a general solver finds it."""

    def loss(q: NDArray[np.float64]) -> float:
        p = torch.from_numpy(q)
        return float(regularizer(p, alpha) - p @ theta)

    def slopes(q: NDArray[np.float64]) -> NDArray[np.float64]:
        p = torch.from_numpy(q)
        of_regularizer = p.log() + 1 if alpha == 1 else p ** (alpha - 1) / (alpha - 1)
        return np.asarray((of_regularizer - theta).numpy())

    found = minimize(
        loss,
        np.full(len(theta), 1 / len(theta)),
        jac=slopes,
        method="SLSQP",
        bounds=[(1e-12, 1)] * len(theta),
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return torch.from_numpy(found.x)


@entry(
    "C14",
    says="Softmax, sparsemax and entmax are the argmax of pᵀθ − Ω(p).",
    source="004:525-562",
    experiment="Five rows for each of five α: a general solver. α → 1 is softmax, α = 2 sparsemax, α "
    "→ ∞ argmax.",
    control="Another α is another map.",
    conditions=[
        at_most(1e-6, "solver off by"),
        at_most(1e-4, "α = 1 + 10⁻⁵ off softmax by"),
        at_most(1e-12, "α = 2 off sparsemax by"),
        at_most(0, "α = 10 off argmax by"),
        must_fail(at_least(0.05, "α = 1.5 off softmax by")),
    ],
)
def regularised(seed: int) -> Figures:
    """Largest differences."""
    off = [
        float((entmax(theta, alpha=alpha) - solved(theta, alpha)).abs().max())
        for alpha in ALPHAS
        for theta in normal(5, 5, seed=2)
    ]
    theta, apart = normal(50, 8), torch.tensor([0.3, -1.0, 0.8, 0.5, 0.0], dtype=torch.float64)

    def differ(alpha: float, other: Tensor, x: Tensor = theta) -> float:
        return float((entmax(x, alpha=alpha) - other).abs().max())

    return {
        "solver off by": max(off),
        "α = 1 + 10⁻⁵ off softmax by": differ(1 + 1e-5, softmax(theta)),
        "α = 2 off sparsemax by": differ(2.0, sparsemax(theta)),
        "α = 10 off argmax by": differ(10.0, argmax(apart), apart),
        "α = 1.5 off softmax by": differ(1.5, softmax(theta)),
    }


def by_sorting(theta: list[float]) -> tuple[float, int]:
    """τ of sparsemax, and how many comparisons the sort made."""
    comparisons = 0

    def compare(a: float, b: float) -> int:
        nonlocal comparisons
        comparisons += 1
        return -1 if a > b else 1

    total, tau = 0.0, 0.0
    for k, value in enumerate(sorted(theta, key=cmp_to_key(compare)), 1):
        total += value
        if k * value > total - 1:
            tau = (total - 1) / k
    return tau, comparisons


def by_selection(theta: NDArray[np.float64]) -> tuple[float, int]:
    """τ of sparsemax by pivots, as in quickselect, and how many numbers were compared with one.

    Duchi et al. (2008), "Efficient Projections onto the ℓ₁-Ball", Figure 2.
    """
    draw, left, total, size, comparisons = random.Random(0), theta, 0.0, 0, 0
    while len(left):
        pivot = left[draw.randrange(len(left))]
        comparisons += len(left)
        above, below = left[left >= pivot], left[left < pivot]
        if total + above.sum() - (size + len(above)) * pivot < 1:  # the pivot is in the support
            total, size, left = total + float(above.sum()), size + len(above), below
        else:
            left = above[above > pivot]
    return (total - 1) / size, comparisons


@entry(
    "C15",
    says="Sparsemax is a threshold, found by sorting in O(n log n) or by selection in O(n).",
    source="004:572-575",
    experiment="[θ − τ]₊ with both τ, n = 256 to 8,192; exponents of the number of comparisons, "
    "counted, not timed.",
    control="A sort makes more than linearly many.",
    conditions=[
        at_most(1e-9, "sorting off by"),
        at_most(1e-9, "selection off by"),
        at_most(1.15, "selection, exponent"),
        at_most(1.25, "sorting, exponent"),
        must_fail(at_least(1.05, "sorting, exponent")),
    ],
)
def thresholds(seed: int) -> Figures:
    """Differences from sparsemax, and exponents."""
    sizes, sorting, selecting = [2**k for k in range(8, 14)], [], []
    off: dict[str, list[float]] = {"sorting": [], "selection": []}
    for n in sizes:
        theta = normal(n, seed=n)
        tau, comparisons = by_sorting(theta.tolist())
        several = [by_selection(row.numpy()) for row in normal(20, n, seed=n)]
        sorting.append(float(comparisons))
        selecting.append(float(np.mean([count for _, count in several])))
        for name, found in (("sorting", tau), ("selection", by_selection(theta.numpy())[0])):
            off[name].append(float((sparsemax(theta) - (theta - found).clamp(min=0)).abs().max()))
    return {
        "sorting off by": max(off["sorting"]),
        "selection off by": max(off["selection"]),
        "sorting, exponent": exponent(sizes, sorting),
        "selection, exponent": exponent(sizes, selecting),
    }


def of_the_slides(p: Tensor, alpha: float) -> Tensor:
    """diag(s) − ssᵀ/‖s‖₁ with sⱼ = pⱼ^{2−α} on the support, 0 off it."""
    s = torch.where(p > 0, p.clamp(min=1e-300) ** (2 - alpha), 0)
    return torch.diag(s) - torch.outer(s, s) / s.sum()


def jacobian(theta: Tensor, alpha: float) -> Tensor:
    """By autograd."""
    found: Tensor = torch.autograd.functional.jacobian(lambda t: entmax(t, alpha=alpha), theta)
    return found


@entry(
    "C16",
    says="The Jacobian of entmax is diag(s) − ssᵀ/‖s‖₁.",
    source="004:617",
    experiment="Autograd and finite differences at α = 1, 1.25, 1.5, 2, 3.",
    control="The formula with α + ½.",
    conditions=[
        at_most(1e-6, "autograd off by"),
        at_most(1e-6, "differences off by"),
        must_fail(at_least(1e-3, "another α off by")),
    ],
)
def jacobians(seed: int) -> Figures:
    """Largest differences from the formula."""
    theta = torch.tensor([0.9, 0.5, -0.1, 0.7, -1.5], dtype=torch.float64)
    step, ours, finite, wrong = 1e-6 * torch.eye(5, dtype=torch.float64), [], [], []
    for alpha in ALPHAS:
        p = entmax(theta, alpha=alpha)
        expected = of_the_slides(p, alpha)
        differences = (entmax(theta + step, alpha=alpha) - entmax(theta - step, alpha=alpha)).mT / 2e-6
        ours.append(float((jacobian(theta, alpha) - expected).abs().max()))
        finite.append(float((differences - expected).abs().max()))
        wrong.append(float((of_the_slides(p, alpha + 0.5) - expected).abs().max()))
    return {"autograd off by": max(ours), "differences off by": max(finite), "another α off by": min(wrong)}


def scores_for(p: list[float], alpha: float) -> Tensor:
    """θ whose α-entmax is p (up to a constant); a weight of 0 gets a score far below."""
    weights = torch.tensor(p, dtype=torch.float64)
    if alpha == 1:
        return weights.clamp(min=1e-12).log()
    return torch.where(weights > 0, weights ** (alpha - 1) / (alpha - 1), -5.0)


@entry(
    "C17",
    says="The Jacobian of sparsemax depends on the support alone.",
    source="004:625-629",
    experiment="At p = (.99, .01, 0) and (.5, .5, 0): how far the two Jacobians are apart.",
    control="α = 1.5 and 1, where they differ.",
    conditions=[
        at_most(1e-12, "α = 2"),
        must_fail(at_least(0.1, "α = 1.5")),
        must_fail(at_least(0.1, "α = 1")),
    ],
)
def support_alone(seed: int) -> Figures:
    """Largest difference by α."""
    found = {}
    for alpha in (1.0, 1.5, 2.0):
        one, other = (jacobian(scores_for(p, alpha), alpha) for p in ([0.99, 0.01, 0.0], [0.5, 0.5, 0.0]))
        found[f"α = {alpha:g}"] = float((one - other).abs().max())
    return found


@entry(
    "C18",
    says="Softmax is dense, entmax sparse for α > 1.",
    source="004:451-461",
    experiment="1,000 rows of 32 scores of spread 3: share of rows with a weight of exactly 0.",
    control="Flat scores keep every key, α = 1.25.",
    conditions=[
        at_most(0, "softmax"),
        *(at_least(0.99, f"α = {alpha:g}") for alpha in ALPHAS[1:]),
        must_fail(at_most(0, "α = 1.25, flat scores")),
    ],
    only_if="scores are spread enough",
)
def zeros(seed: int) -> Figures:
    """Shares of rows."""
    theta = 3 * normal(1000, 32)

    def share(p: Tensor) -> float:
        return float((p == 0).any(-1).double().mean())

    found = {"softmax": share(softmax(theta))}
    found |= {f"α = {alpha:g}": share(entmax(theta, alpha=alpha)) for alpha in ALPHAS[1:]}
    return found | {"α = 1.25, flat scores": share(entmax(theta / 100, alpha=1.25))}


@entry(
    "C19",
    says="In two dimensions entmax([t, 0]) ends at t = ±1/(α − 1).",
    source="004:501-523",
    experiment="At and before the end, α = 1.25, 1.5, 2, 3: what is left of the lower weight.",
    control="Softmax never drops one.",
    conditions=[
        at_most(1e-9, "lower weight at the end, at most"),
        at_least(1e-9, "lower weight before it, at least"),
        *between(0.65, 0.65 + 1e-9, "sparsemax at t = 0.3"),
        must_fail(at_least(1e-14, "softmax at t = 30")),
    ],
)
def two_scores(seed: int) -> Figures:
    """The lower weight."""

    def first(t: float, alpha: float) -> float:
        return float(entmax(torch.tensor([t, 0.0], dtype=torch.float64), alpha=alpha)[0])

    ends = {alpha: 1 / (alpha - 1) for alpha in ALPHAS[1:]}
    return {
        "lower weight at the end, at most": max(1 - first(end, alpha) for alpha, end in ends.items()),
        "lower weight before it, at least": min(1 - first(0.99 * end, alpha) for alpha, end in ends.items()),
        "sparsemax at t = 0.3": round(first(0.3, 2.0), 12),
        "softmax at t = 30": float(softmax(torch.tensor([30.0, 0.0], dtype=torch.float64))[1]),
    }


def taught(map: nn.Module, seed: int) -> float:
    """The loss of four heads that see the same scores, and are to give the mean of all values and the one
    that a higher score marks."""
    torch.manual_seed(seed)
    n, read, losses = 16, nn.Linear(4, 2), []
    optimizer = torch.optim.Adam([*map.parameters(), *read.parameters()], lr=2e-2)
    one = torch.ones(64, 4, 1, 1)
    for _ in range(few(200)):
        values, mark = torch.randn(64, n), torch.randint(n, (64,))
        theta = 0.5 * torch.randn(64, n) + 1.5 * nn.functional.one_hot(mark, n)
        seen = attend(one, theta[:, None, :, None], values[:, None, :, None], score="dot", map=map)
        wanted = torch.stack([values[torch.arange(64), mark], math.sqrt(n) * values.mean(1)], -1)
        loss = (read(seen.context.flatten(1)) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses[-20:]))


@claim(
    "C21",
    group="Scores and maps",
    fixed="a82a066",
    says="∂entmax/∂α exists: heads can learn an α of their own.",
    source="004:1362",
    experiment="∂p/∂α by autograd and by differences. Four heads that see the same scores, a task "
    "that needs one focused and one averaging head, 200 steps: how far the α come apart, and the loss "
    "by that of α = 1.5.",
    control="α fixed at 1.5.",
    conditions=[
        at_most(1e-5, "∂p/∂α off by"),
        at_least(0.3, "α apart by"),
        must_fail(at_most(0.6, "loss by that of a fixed α")),
    ],
    minutes=0.1,
)
def learned_alpha(seed: int) -> Figures:
    """The derivative, the spread of α, and what it is worth."""
    theta, h, off = 0.5 * normal(4, 6), 1e-6, []
    for row, a in zip(theta, (1.2, 1.5, 1.8, 2.5), strict=True):
        alpha = torch.tensor([a], dtype=torch.float64)
        found = torch.autograd.functional.jacobian(lambda x, row=row: entmax(row, alpha=x), alpha).squeeze(-1)
        expected = (entmax(row, alpha=a + h) - entmax(row, alpha=a - h)) / (2 * h)
        off.append(float((found - expected).abs().max()))
    map = Entmax(learn_alpha=True, heads=4)
    loss = taught(map, seed)
    return {
        "∂p/∂α off by": max(off),
        "α apart by": float(
            torch.as_tensor(map.alpha).detach().max() - torch.as_tensor(map.alpha).detach().min()
        ),
        "loss by that of a fixed α": loss / taught(Entmax(alpha=1.5), seed),
    }
