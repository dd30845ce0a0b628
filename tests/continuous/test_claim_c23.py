"""Claim C23: closed forms against quadrature, and a signal read off as well as by discrete attention."""

import math

import pytest
import torch
from scipy.integrate import quad

from regard import Attention
from regard.continuous import Basis, Gaussian, TruncatedParabola
from regard.scores import Bilinear

N, NOISE, SEEDS = 48, 0.3, (0, 1, 2)


def integral(density, of, reach):
    def at(t):
        return (density.pdf(torch.tensor([t], dtype=torch.float64)) * of(t)).item()

    mean, sigma = density.mean.item(), density.variance.sqrt().item()
    return quad(at, mean - reach * sigma, mean + reach * sigma, epsabs=1e-10)[0]


@pytest.mark.parametrize("sigma", [0.01, 0.2, 3.0])
def test_claim_c23_the_moments_of_a_gaussian(sigma):
    density = Gaussian(torch.tensor(0.3).double(), torch.tensor(sigma**2).double())
    basis = Basis.even(4, torch.tensor([0.1]).double())
    assert integral(density, lambda t: t, 9) == pytest.approx(0.3, abs=1e-6)
    assert integral(density, lambda t: (t - 0.3) ** 2, 9) == pytest.approx(sigma**2, abs=1e-6)
    for j, r in enumerate(density.expect(basis).tolist()):
        want = integral(density, lambda t, j=j: basis(torch.tensor([t]).double())[0, j], 9)
        assert r == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 0.02, 9.0])
def test_claim_c23_the_truncated_parabola_integrates_to_1(scale):
    density = TruncatedParabola.of_score(torch.tensor(0.3).double(), torch.tensor(scale).double())
    assert integral(density, lambda t: 1, 5**0.5) == pytest.approx(1, abs=1e-6)


def signals(count, generator):
    """Noisy samples (count, n) of smooth signals, a place of each (count, 1), and the true value there."""
    k = torch.arange(1, 4)
    height = torch.randn(count, 1, 3, generator=generator) / k
    phase = 2 * math.pi * torch.rand(count, 1, 3, generator=generator)

    def signal(t):
        return (height * torch.sin(4 / 3 * math.pi * k * t.unsqueeze(-1) + phase)).sum(-1)

    t = ((torch.arange(N) + 0.5) / N).expand(count, N)
    place = torch.rand(count, 1, generator=generator)
    return signal(t) + NOISE * torch.randn(count, N, generator=generator), place, signal(place)


def features(t):
    waves = torch.arange(1, 7) * math.pi / 2 * t.unsqueeze(-1)
    return torch.cat([waves.sin(), waves.cos()], -1)  # (..., 12)


def error(map, seed, steps=200):
    """The squared error of an attention that was trained to read off the signal at a place."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    attention = Attention(Bilinear(12, 12), map)
    keys = features((torch.arange(N) + 0.5) / N)
    optimiser = torch.optim.Adam(attention.parameters(), lr=0.03)

    def loss(values, place, truth):
        seen = attention(features(place), keys.expand(len(values), N, 12), values.unsqueeze(-1))
        return (seen.context.squeeze(-1) - truth).square().mean()

    for _ in range(steps):
        optimiser.zero_grad()
        loss(*signals(128, generator)).backward()
        optimiser.step()
    with torch.no_grad():
        return loss(*signals(8_000, torch.Generator().manual_seed(99))).item()


def mean_error(map):
    return sum(error(map, seed) for seed in SEEDS) / len(SEEDS)


@pytest.fixture(scope="module")
def discrete():
    return mean_error("softmax")


@pytest.mark.parametrize("map", ["continuous_softmax", "continuous_sparsemax"])
def test_claim_c23_regression_of_a_signal(map, discrete):
    assert discrete < NOISE**2 / 2  # it has learned to average
    assert mean_error(map) < 1.05 * discrete
