"""Hard attention: corrections 10 and 21; which estimators are biased. C35 to C39 are in regard.claims."""

import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import regard
from regard.claims.hard_estimators import Bent, N, Toy, off, variance
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

SAMPLES = 100_000


def test_correction_21_the_lectures_last_formula_leaves_out_the_baseline():
    """λᵣ log p(y|s) ∇log p(s) has the mean of λᵣ (log p(y|s) − b) ∇log p(s), and many times its variance."""
    toy, steady = Toy(0), Reinforce()
    steady.observe(toy.mean)
    printed, paper = toy.samples(Reinforce(None), 0), toy.samples(steady, 0)
    keys = Hard(Reinforce(None), generator=torch.Generator().manual_seed(0))(toy.theta.expand(SAMPLES, N))
    slope = keys - toy.p  # ∇log p(s)
    reward = keys @ toy.reward
    torch.testing.assert_close(printed, -reward[:, None] * slope)
    torch.testing.assert_close(paper, -(reward - toy.mean)[:, None] * slope, rtol=1e-5, atol=1e-5)
    assert variance(printed) > 4 * variance(paper)


def test_the_value_after_the_batch_would_be_biased():
    """Why b is from before: with one example at a time, 0.9 b + 0.1 r leaves nine tenths of the gradient."""
    toy = Toy(0)
    keys = Hard(Reinforce(None), generator=torch.Generator().manual_seed(0))(toy.theta.expand(SAMPLES, N))
    reward = keys @ toy.reward
    after = 0.9 * toy.mean + 0.1 * reward
    assert off(-(reward - after)[:, None] * (keys - toy.p), toy.gradient) > 3


@pytest.mark.parametrize(
    "estimator", [Reinforce(None), Reinforce(), Exact()], ids=["plain", "baseline", "exact"]
)
def test_c39_these_are_unbiased_where_the_loss_bends(estimator):
    toy = Bent(0)
    if isinstance(estimator, Reinforce):
        estimator.observe(-toy.expected(toy.theta))
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
    toy = Bent(0)
    grads = toy.samples(estimator, SAMPLES, 0)
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
