"""What the lectures say of hard attention, as experiments: claims C35 to C39, corrections 10 and 21."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.losses import expected_loss
from regard.maps import Hard
from regard.maps.estimators import (
    Exact,
    GumbelSoftmax,
    PerturbAndMap,
    Reinforce,
    Spigot,
    StraightThrough,
    spigot,
)

N, SAMPLES = 10, 100_000


class Toy:
    """Ten locations whose rewards lie between −5 and −2; every expectation can be written out."""

    def __init__(self, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.theta = torch.randn(N, generator=g, dtype=torch.float64)
        self.reward = -5 + 3 * torch.rand(N, generator=g, dtype=torch.float64)
        self.p = self.theta.softmax(-1)
        self.mean = self.p @ self.reward
        self.gradient = -self.p * (self.reward - self.mean)  # of the expected loss −r

    def samples(self, estimator, seed=0, count=SAMPLES):
        """One gradient of θ for each sample: (count, 10)."""
        map = Hard(estimator, generator=torch.Generator().manual_seed(seed))
        theta = self.theta.expand(count, N).clone().requires_grad_()
        expected_loss(-(map(theta) @ self.reward)).backward()
        return count * theta.grad


def off(grads, exact):
    """How many standard errors the mean of grads (samples, n) is off, at its worst coordinate."""
    return ((grads.mean(0) - exact) / (grads.std(0) / len(grads) ** 0.5)).abs().max().item()


def variance(grads):
    return grads.var(0).sum().item()


# C35, C36: the baseline


@pytest.mark.parametrize("seed", range(3))
def test_c35_reinforce_is_unbiased_and_a_baseline_reduces_its_variance(seed):
    toy = Toy(seed)
    plain, steady = toy.samples(Reinforce(None), seed), Reinforce()
    steady.observe(toy.mean)  # an average that has arrived
    compared = toy.samples(steady, seed + 100)
    assert off(plain, toy.gradient) < 3
    assert off(compared, toy.gradient) < 3
    assert variance(compared) / variance(plain) <= 0.25


def test_c35_control_a_baseline_far_off_does_harm_and_no_bias():
    toy, far = Toy(), Reinforce()
    far.observe(toy.mean - 10)
    grads = toy.samples(far)
    assert off(grads, toy.gradient) < 3
    assert variance(grads) > variance(toy.samples(Reinforce(None)))


@pytest.mark.parametrize("seed", range(3))
def test_c36_the_moving_average_gets_there_by_itself(seed):
    toy, moving = Toy(seed), Reinforce(0.9)
    for step in range(50):
        toy.samples(moving, seed=1000 + step, count=1)
    assert moving.batches == 50
    compared = toy.samples(moving, seed)
    assert off(compared, toy.gradient) < 3
    assert variance(compared) / variance(toy.samples(Reinforce(None), seed)) <= 0.5


def test_correction_21_the_lectures_last_formula_leaves_out_the_baseline():
    """λᵣ log p(y|s) ∇log p(s) has the mean of λᵣ (log p(y|s) − b) ∇log p(s), and many times its variance."""
    toy, steady = Toy(), Reinforce()
    steady.observe(toy.mean)
    printed, paper = toy.samples(Reinforce(None)), toy.samples(steady)
    keys = Hard(Reinforce(None), generator=torch.Generator().manual_seed(0))(toy.theta.expand(SAMPLES, N))
    slope = keys - toy.p  # ∇log p(s)
    reward = keys @ toy.reward
    torch.testing.assert_close(printed, -reward[:, None] * slope)
    torch.testing.assert_close(paper, -(reward - toy.mean)[:, None] * slope, rtol=1e-5, atol=1e-5)
    assert variance(printed) > 4 * variance(paper)


def test_the_value_after_the_batch_would_be_biased():
    """Why b is from before: with one example at a time, 0.9 b + 0.1 r leaves nine tenths of the gradient."""
    toy = Toy()
    keys = Hard(Reinforce(None), generator=torch.Generator().manual_seed(0))(toy.theta.expand(SAMPLES, N))
    reward = keys @ toy.reward
    after = 0.9 * toy.mean + 0.1 * reward
    assert off(-(reward - after)[:, None] * (keys - toy.p), toy.gradient) > 3


# C37: the entropy term


def test_c37_the_entropy_term_does_not_change_the_variance():
    """Correction 21: ∇H is not random, so the lecture's "further reduce the estimator variance" fails."""
    toy = Toy()
    without, bonus = toy.samples(Reinforce(None)), toy.samples(Reinforce(None, entropy=0.5))
    assert variance(bonus) == pytest.approx(variance(without), rel=1e-9)
    shift = bonus - without
    assert shift.std(0).max() < 1e-9  # the same for every sample
    assert off(bonus, toy.gradient) > 3  # and a bias


def test_c37_what_the_entropy_term_does_is_keep_the_policy_open():
    def entropy_after(seed, strength):
        toy = Toy(seed)
        theta = torch.zeros(N, dtype=torch.float64, requires_grad=True)
        map = Hard(Reinforce(entropy=strength), generator=torch.Generator().manual_seed(seed))
        for _ in range(200):
            expected_loss(-(map(theta.expand(32, N)) @ toy.reward)).backward()
            with torch.no_grad():
                theta -= 0.5 * theta.grad
                theta.grad = None
        return regard.maps.tsallis(theta.softmax(-1)).item()

    ratios = [entropy_after(seed, 0.5) / entropy_after(seed, 0.0) for seed in range(5)]
    assert sum(ratios) / 5 >= 2
    assert sum(ratio >= 2 for ratio in ratios) >= 4


# C39: estimators against the exact gradient


class Bent:
    """Keys with values, read by a network and a cross-entropy: the loss is not linear in the weights."""

    def __init__(self, seed=0, n=6, width=4):
        g = torch.Generator().manual_seed(seed)
        self.theta, self.values, self.read = (
            torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((n,), (n, width), (width, 3))
        )
        self.values *= 2

    def losses(self, weights):
        logits = torch.tanh(weights @ self.values) @ self.read
        return F.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long), reduction="none")

    def samples(self, estimator, count, seed=0):
        map = Hard(estimator, generator=torch.Generator().manual_seed(seed))
        theta = self.theta.expand(count, -1).clone().requires_grad_()
        exact = isinstance(estimator, Exact)
        loss = expected_loss((lambda: self.losses(map(theta))) if exact else self.losses(map(theta)))
        loss.backward()
        return count * theta.grad

    def gradient(self):
        theta = self.theta.clone().requires_grad_()
        (theta.softmax(-1) @ self.losses(torch.eye(len(theta), dtype=torch.float64))).backward()
        return theta.grad

    def reward(self):
        return -(self.theta.softmax(-1) @ self.losses(torch.eye(len(self.theta), dtype=torch.float64)))


def test_c39_exact_then_reinforce_with_then_without_baseline():
    cosines = []
    for seed in range(5):
        toy = Bent(seed)
        exact, steady = toy.gradient(), Reinforce()
        steady.observe(toy.reward())
        row = []
        for estimator in (Exact(), steady, Reinforce(None)):
            means = toy.samples(estimator, 20_000, seed).view(400, 50, -1).mean(1)  # 50 samples each
            row.append(F.cosine_similarity(means, exact, dim=-1).mean().item())
        cosines.append(row)
    cosines = torch.tensor(cosines)
    assert torch.allclose(cosines[:, 0], torch.ones(5))
    assert (cosines[:, 0] > cosines[:, 1]).all()
    assert (cosines[:, 1] > cosines[:, 2]).sum() >= 4
    assert cosines[:, 1].mean() > cosines[:, 2].mean()


@pytest.mark.parametrize(
    "estimator", [Reinforce(None), Reinforce(), Exact()], ids=["plain", "baseline", "exact"]
)
def test_c39_these_are_unbiased_where_the_loss_bends(estimator):
    toy = Bent()
    if isinstance(estimator, Reinforce):
        estimator.observe(toy.reward())
    grads = toy.samples(estimator, SAMPLES, seed=1)
    if isinstance(estimator, Exact):
        torch.testing.assert_close(grads, toy.gradient().expand_as(grads))
    else:
        assert off(grads, toy.gradient()) < 3


@pytest.mark.parametrize(
    "estimator",
    [
        StraightThrough(),
        StraightThrough(regard.maps.softmax),
        StraightThrough(draw=False),
        GumbelSoftmax(0.5),
        GumbelSoftmax(0.5, hard=True),
        PerturbAndMap(),
        Spigot(),
    ],
    ids=repr,
)
def test_c39_these_are_biased_however_many_samples(estimator):
    toy = Bent()
    grads = toy.samples(estimator, SAMPLES)
    cosine = F.cosine_similarity(grads.mean(0), toy.gradient(), dim=0).item()
    assert cosine < 0.995
    spread = grads.std(0).max().item()
    assert spread == 0 or off(grads, toy.gradient()) > 10


def test_correction_10_the_papers_of_surrogate_gradients():
    """The lecture has "Mihaylova et al. (2026)" and "Nicolae": the paper is of 2020, its author Niculae."""
    assert "Mihaylova, Niculae & Martins (2020), arXiv:2010.02357" in spigot.__doc__
    files = Path(regard.__file__).parent.glob("maps/estimators/*.py")
    cited = "\n".join(file.read_text(encoding="utf-8").split('"""')[1] for file in files)
    assert set(re.findall(r"Martins \((\d+)\)", cited)) == {"2020"}


# C38: the soft swap


GLYPHS = [
    "11111 10001 10001 10001 11111",
    "00100 00100 11111 00100 00100",
    "10001 01010 00100 01010 10001",
    "11111 10000 11100 10000 10000",
    "00100 01010 10001 11111 10001",
]


def glyphs_in_clutter(count, seed):
    """Images (count, 32, 32) of 4 × 4 cells, a glyph in one and glyphs of shuffled pixels in the others."""
    g = torch.Generator().manual_seed(seed)
    ink = torch.tensor([[float(c) for c in glyph.replace(" ", "")] for glyph in GLYPHS])  # (5, 25)
    label, cell = torch.randint(5, (count,), generator=g), torch.randint(16, (count,), generator=g)
    shuffled = torch.rand(count, 16, 25, generator=g).argsort(-1)
    marks = ink[torch.randint(5, (count, 16), generator=g)].gather(-1, shuffled)
    marks[torch.arange(count), cell] = ink[label]
    cells = 0.2 * torch.randn(count * 16, 8, 8, generator=g)
    corner = torch.randint(2, (2, count * 16), generator=g)
    i = corner[0, :, None, None] + torch.arange(5)[:, None]
    j = corner[1, :, None, None] + torch.arange(5)
    cells[torch.arange(count * 16)[:, None, None], i, j] += marks.view(-1, 5, 5)
    image = cells.view(count, 4, 4, 8, 8).transpose(2, 3).reshape(count, 32, 32)
    return image, label


class Glimpse(nn.Module):
    """Looks at one of 16 patches and says which glyph is in the image."""

    def __init__(self, map, width=32):
        super().__init__()
        self.see = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        self.query = nn.Parameter(torch.zeros(1, width))
        self.attention = regard.Attention(map=map)
        self.read = nn.Linear(width, len(GLYPHS))

    def forward(self, image):
        patches = image.view(-1, 4, 8, 4, 8).transpose(2, 3).reshape(-1, 16, 64)
        query = self.query.expand(len(image), 1, -1)
        return self.read(self.attention(query, self.see(patches)).context.squeeze(1))


def accuracy(estimator, seed, train, test, steps=400, batch=64):
    torch.manual_seed(seed)
    model = Glimpse(Hard(estimator))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        which = torch.randint(len(train[0]), (batch,))
        optimizer.zero_grad()
        expected_loss(F.cross_entropy(model(train[0][which]), train[1][which], reduction="none")).backward()
        optimizer.step()
    with torch.no_grad():
        return (model.eval()(test[0]).argmax(-1) == test[1]).float().mean().item()


@pytest.mark.slow
def test_c38_with_the_soft_swap_fewer_runs_fail():
    """After 400 steps. Later all runs get there with and without; by then the variance falls in some tens of
    seeds and not in others, so the half of the claim that is about variance is not confirmed here."""
    train, test = glyphs_in_clutter(20_000, 0), glyphs_in_clutter(1000, 1)
    plain = torch.tensor([accuracy(Reinforce(), seed, train, test) for seed in range(20, 30)])
    swapped = torch.tensor([accuracy(Reinforce(swap=0.5), seed, train, test) for seed in range(20, 30)])
    print(f"without {plain.mean():.3f} ± {plain.std():.3f}, with {swapped.mean():.3f} ± {swapped.std():.3f}")
    assert (swapped < 0.6).sum() < (plain < 0.6).sum()
    assert swapped.mean() > plain.mean()
