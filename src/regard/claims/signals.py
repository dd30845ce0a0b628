"""C23: continuous attention: closed forms against quadrature; a signal read off as by discrete attention."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from scipy.integrate import quad
from torch import Tensor

from regard.attention import Attention
from regard.claims.claim import Figures, at_most, claim, must_fail
from regard.claims.quick import few, sized
from regard.continuous import Basis, Gaussian, TruncatedParabola
from regard.scores import Bilinear

N, NOISE = 48, 0.3


def integral(density: Any, of: Callable[[float], float], reach: float) -> float:
    """∫ p(t) f(t) dt by quadrature."""

    def at(t: float) -> float:
        return float((density.pdf(torch.tensor([t], dtype=torch.float64)) * of(t)).item())

    mean, sigma = density.mean.item(), density.variance.sqrt().item()
    return float(quad(at, mean - reach * sigma, mean + reach * sigma, epsabs=1e-10)[0])


def basis_at(basis: Basis, j: int, t: float) -> float:
    """The j-th basis function at t."""
    return float(basis(torch.tensor([t]).double())[0, j])


def closed_forms() -> float:
    """The largest difference of mean, variance and expected basis functions from quadrature."""
    off = []
    for sigma in (0.01, 0.2, 3.0):
        density = Gaussian(torch.tensor(0.3).double(), torch.tensor(sigma**2).double())
        basis = Basis.even(4, torch.tensor([0.1]).double())
        off.append(abs(integral(density, lambda t: t, 9) - 0.3))
        off.append(abs(integral(density, lambda t: (t - 0.3) ** 2, 9) - sigma**2))
        for j, r in enumerate(density.expect(basis).tolist()):
            off.append(abs(r - integral(density, partial(basis_at, basis, j), 9)))
    for scale in (1e-6, 0.02, 9.0):
        parabola = TruncatedParabola.of_score(torch.tensor(0.3).double(), torch.tensor(scale).double())
        off.append(abs(integral(parabola, lambda t: 1, 5**0.5) - 1))
    return max(off)


def drawn(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Noisy samples (count, n) of smooth signals, a place of each (count, 1), and the true value there."""
    k = torch.arange(1, 4)
    height = torch.randn(count, 1, 3, generator=generator) / k
    phase = 2 * math.pi * torch.rand(count, 1, 3, generator=generator)

    def signal(t: Tensor) -> Tensor:
        return (height * torch.sin(4 / 3 * math.pi * k * t.unsqueeze(-1) + phase)).sum(-1)

    t = ((torch.arange(N) + 0.5) / N).expand(count, N)
    place = torch.rand(count, 1, generator=generator)
    return signal(t) + NOISE * torch.randn(count, N, generator=generator), place, signal(place)


def features(t: Tensor) -> Tensor:
    """Sines and cosines of a place (...,): (..., 12)."""
    waves = torch.arange(1, 7) * math.pi / 2 * t.unsqueeze(-1)
    return torch.cat([waves.sin(), waves.cos()], -1)


def squared_error(map: str, seed: int, steps: int = 200) -> float:
    """Of an attention that was trained to read off the signal at a place."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    attention = Attention(Bilinear(12, 12), map)
    keys = features((torch.arange(N) + 0.5) / N)
    optimiser = torch.optim.Adam(attention.parameters(), lr=0.03)

    def loss(values: Tensor, place: Tensor, truth: Tensor) -> Tensor:
        seen = attention(features(place), keys.expand(len(values), N, 12), values.unsqueeze(-1))
        error: Tensor = (seen.context.squeeze(-1) - truth).square().mean()
        return error

    for _ in range(few(steps)):
        optimiser.zero_grad()
        loss(*drawn(128, generator)).backward()
        optimiser.step()
    with torch.no_grad():
        return loss(*drawn(sized(8_000, 64), torch.Generator().manual_seed(99))).item()


@claim(
    "C23",
    group="Scores and maps",
    fixed="aa447e2",
    says="Attention can be continuous, over time or space.",
    source="004:86-104",
    experiment="Moments of the Gaussian and the truncated parabola against quadrature; a noisy "
    "signal read off at a place, 200 steps: squared error by that of discrete softmax.",
    control="Discrete attention has learned to average: its error is less than half of the noise.",
    conditions=[
        at_most(1e-6, "closed forms off by"),
        *(at_most(1.05, f"continuous {map} by softmax") for map in ("softmax", "sparsemax")),
        must_fail(at_most(NOISE**2 / 2, "error of softmax")),
    ],
    minutes=0.2,
)
def continuous(seed: int) -> Figures:
    """Differences and errors."""
    discrete = squared_error("softmax", seed)
    return {
        "closed forms off by": closed_forms(),
        "error of softmax": discrete,
        "continuous softmax by softmax": squared_error("continuous_softmax", seed) / discrete,
        "continuous sparsemax by softmax": squared_error("continuous_sparsemax", seed) / discrete,
    }
