"""Maps whose temperature falls with the number of keys."""

import math

import pytest
import torch

import regard
from regard.maps import Scalable, entmax15, scalable_entmax, scalable_softmax, softmax, sparsemax


def test_it_is_the_map_of_scores_times_a_power_of_the_logarithm():
    scalable = Scalable(entmax15, heads=2)
    scalable.b.data, scalable.g.data = torch.tensor([0.3, -1.0]), torch.tensor([0.5, -0.2])
    scores = torch.randn(3, 2, 4, 6)
    scores[..., 4:] = -torch.inf  # four keys can be seen
    for head in range(2):
        beta, gamma = math.log1p(math.exp(scalable.b[head])), math.tanh(scalable.g[head])
        wanted = entmax15(scores[:, head] * (1 + beta * math.log(4) ** gamma))
        torch.testing.assert_close(scalable(scores)[:, head], wanted)


def test_scalable_softmax_keeps_its_largest_weight_where_softmax_spreads():
    scalable = scalable_softmax()
    scalable.b.data.fill_(math.log(math.e - 1))  # β = 1
    for n in (10, 1000):
        scores = torch.zeros(n)
        scores[0] = 2.0
        torch.testing.assert_close(scalable(scores), softmax(scores * math.log(n)))
    assert float(scalable(scores)[0]) > 0.99 > 0.1 > float(softmax(scores)[0])


def test_it_learns_keeps_the_facts_of_its_map_and_attends():
    scalable = scalable_entmax(heads=2)
    assert scalable.facts.name == "entmax15" and "entmax15" in repr(scalable)
    heads = regard.MultiHead(8, heads=2, map=scalable)
    x = torch.randn(1, 5, 8)
    heads(x, mask=regard.masks.Causal()).context.sum().backward()
    for learned in (scalable.b, scalable.g):
        assert learned.grad is not None and learned.grad.isfinite().all() and learned.grad.any()
    gradients = torch.autograd.gradcheck(
        lambda theta: Scalable(sparsemax)(theta), torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    )
    assert gradients


@pytest.mark.parametrize("map", [softmax, sparsemax, entmax15])
def test_hidden_keys_have_no_part_in_what_is_learned(map):
    seen = torch.randn(2, 3, 4, dtype=torch.float64)
    hidden = torch.full((2, 3, 2), -torch.inf, dtype=torch.float64)
    found = []
    for scores in (seen, torch.cat([seen, hidden], -1)):
        scalable = Scalable(map, heads=2).double()
        scores.requires_grad_()
        (scalable(scores)[..., :4] * torch.arange(4.0)).sum().backward()
        found.append((scalable.b.grad, scalable.g.grad, scores.grad[..., :4]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert float(found[0][0].abs().min()) > 0


def test_what_is_no_row_map_is_refused():
    for wrong in (regard.maps.sinkhorn, torch.softmax):
        with pytest.raises(ValueError, match="row map"):
            Scalable(wrong)
    with pytest.raises(ValueError, match="heads"):
        Scalable(heads=0)
