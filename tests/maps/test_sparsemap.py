"""SparseMAP as a map: the contract of matrix maps, and inside attention."""

import math
from functools import partial

import pytest
import torch

import regard
from regard import MAPS, attend
from regard.maps import SparseMap, facts_of, sparsemap, sparsemap_matching, sparsemap_tree, sparsemax
from regard.masks import Causal
from regard.structures import Choice, Matching, Oracle, Tree

INF = math.inf
MATRIX = {"sparsemap_matching": sparsemap_matching, "sparsemap_tree": sparsemap_tree}
every_map = pytest.mark.parametrize("name", MATRIX)


def scores(*shape, seed=0, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64) * scale


def test_the_function_takes_any_structure():
    theta = scores(3, 4, 4)
    assert torch.equal(sparsemap(theta, Matching()), sparsemap_matching(theta))
    assert torch.equal(sparsemap(theta, Tree()), sparsemap_tree(theta))
    assert torch.equal(sparsemap(theta, Choice()), sparsemax(theta))
    with pytest.raises(
        TypeError, match=r"structure must be one of regard.structures.*got str.*Oracle\(function\)"
    ):
        sparsemap(theta, "tree")
    with pytest.raises(TypeError, match="structure must be one of regard.structures"):
        SparseMap(lambda x: x)


def test_facts_of_a_map_over_a_structure():
    tree, choice = SparseMap(Tree()), SparseMap(Choice())
    assert facts_of(tree).acts_on == "matrix" and facts_of(tree).neighbours and facts_of(tree).simplex
    assert facts_of(choice).acts_on == "row" and facts_of(choice).ordered and facts_of(choice).simplex
    assert not facts_of(SparseMap(Matching())).simplex
    assert "Tree" in repr(tree)
    assert facts_of(partial(sparsemap_tree)).name == "sparsemap_tree"


def test_every_doubly_stochastic_matrix_is_its_own_marginals():
    p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.7, 0.2], [0.4, 0.0, 0.6]], dtype=torch.float64)
    torch.testing.assert_close(sparsemap_matching(p), p)


def heaviest(k):
    def function(scores):
        vertex = torch.zeros_like(scores)
        vertex[scores.topk(k).indices] = 1
        return vertex

    return Oracle(function)


ATTENDING = {"module": SparseMap(Tree()), "own": SparseMap(heaviest(2)), "choice": SparseMap(Choice())}


@pytest.mark.parametrize("map", ATTENDING)
def test_inside_attention(map):
    map = ATTENDING[map]
    x = scores(2, 5, 8, seed=4).requires_grad_()
    attention = regard.Attention(map=map)
    seen = attention(x, x)
    torch.testing.assert_close(seen.context, seen.weights @ x)
    assert (seen.weights == 0).any()
    (grad,) = torch.autograd.grad(seen.context.square().sum(), x)
    assert grad.isfinite().all() and (grad != 0).any()
    with regard.record(attention) as recorded:
        again = attention(x, x)
    assert torch.equal(again.context, seen.context)
    (calls,) = recorded.values()
    assert torch.equal(calls[0].weights, seen.weights)
    with regard.intervene(attention, lambda p: torch.zeros_like(p)):
        assert (attention(x, x).context == 0).all()
    heads = regard.MultiHead(8, heads=2, map=map).double()
    assert heads(x, x).context.shape == (2, 5, 8)


def test_a_causal_mask_is_refused():
    x = scores(4, 8)
    with pytest.raises(ValueError, match="takes no Causal mask"):
        attend(x, x, map=SparseMap(Tree()), mask=Causal())
    assert attend(x, x, map=SparseMap(Choice()), mask=Causal()).weights[0].tolist() == [1, 0, 0, 0]


@every_map
def test_the_gradient_of_the_regularised_maximum_is_the_map(name):
    """∇ max_μ θᵀμ − ½‖μ‖² = μ (Danskin), though μ itself is differentiated here."""
    theta = scores(3, 5, 5, seed=6).requires_grad_()
    mu = MAPS[name](theta)
    value = (theta * mu).sum() - mu.square().sum() / 2
    torch.testing.assert_close(torch.autograd.grad(value, theta)[0], mu)
