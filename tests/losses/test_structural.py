"""Global fertility and the trace bonus by their definitions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import ShapeError
from regard.losses import global_fertility, trace


def test_global_fertility_is_a_normal_density():
    torch.manual_seed(0)
    weights = torch.rand(2, 4, 3, dtype=torch.float64, requires_grad=True)
    mean = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    variance = (0.1 + torch.rand(2, 3, dtype=torch.float64)).requires_grad_()
    real = torch.tensor([[True, True, True], [True, False, False]])
    wanted = 0.0
    for b in range(2):
        for j in range(3):
            if real[b, j]:
                normal = torch.distributions.Normal(mean[b, j], variance[b, j].sqrt())
                wanted = wanted - normal.log_prob(sum(weights[b, i, j] for i in range(4)))
    torch.testing.assert_close(global_fertility(weights, mean, variance, real), wanted)
    assert torch.autograd.gradcheck(global_fertility, (weights, mean, variance, real))
    assert torch.autograd.gradgradcheck(global_fertility, (weights, mean, variance, real))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_the_trace_is_a_trace_between_0_and_the_shorter_length(m, n, seed):
    torch.manual_seed(seed)
    ahead = torch.softmax(3 * torch.randn(2, m, n, dtype=torch.float64), -1)
    back = torch.softmax(3 * torch.randn(2, n, m, dtype=torch.float64), -1)
    bonus = trace(ahead, back)
    for b in range(2):
        stored_alike = back[b].T  # (m, n), as `ahead` is
        assert float(bonus[b]) == pytest.approx(float(torch.trace(ahead[b] @ stored_alike.T)))
        assert 0 <= bonus[b] <= min(m, n) + 1e-12


def test_one_to_one_links_reach_the_bound_and_the_shapes_must_be_opposite():
    links = torch.eye(5)[torch.randperm(5)][:3]  # three target words, five source words
    assert trace(links, links.T) == 3
    with pytest.raises(ShapeError, match=r"back \(\.\.\., n, m\)"):
        trace(links, links)
    assert math.isclose(trace(torch.full((4, 4), 0.25), torch.full((4, 4), 0.25)), 1.0)
