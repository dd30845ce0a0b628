"""SparseMAP as a map: the contract of matrix maps, and inside attention."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.func import hessian, jacfwd, jacrev, vmap

import regard
from regard import MAPS, attend
from regard.core.errors import DtypeError
from regard.kernels.sparsemap.sparsemap_batch import BUDGET, CHAIN, MATCHING, TREE, solve
from regard.maps import SparseMap, facts_of, sparsemap, sparsemap_matching, sparsemap_tree, sparsemax
from regard.masks import Causal, Lengths
from regard.structures import Choice, Matching, Oracle, Tree
from structures import vertices

INF = math.inf
MATRIX = {"sparsemap_matching": sparsemap_matching, "sparsemap_tree": sparsemap_tree}
every_map = pytest.mark.parametrize("name", MATRIX)


def scores(*shape, seed=0, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64) * scale


def worth(faces, states, T):
    """Σ pb: the transitions of the paths of one chain, weighted."""
    paths = [faces.where[v, : faces.count[v]] % states for v in range(len(faces.count))]
    return sum(w * T[path[:-1], path[1:]].sum() for w, path in zip(faces.weight, paths, strict=True))


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_c41_sparsemap_works_for_any_structure_with_a_map_oracle(scale):
    """Claim C41: KKT residual and distance to a brute-force QP below 1e-6, at most dim + 1 structures."""
    T = scores(3, 3, seed=9, scale=scale).numpy()
    paths, extra = vertices.paths(3, 3, T)
    none = np.zeros((0, 0))
    for kind, limit, shape, points, b, moves in (
        (CHAIN, 0, (3, 3), paths, extra, T),
        (BUDGET, 2, (1, 6), vertices.budgets(6, 2).reshape(-1, 1, 6), 0.0, none),
        (MATCHING, 0, (4, 4), vertices.matchings(4, 4), 0.0, none),
        (TREE, 0, (4, 4), vertices.trees(4), 0.0, none),
    ):
        for seed in range(2):
            theta = scores(*shape, seed=seed, scale=scale)
            solved = solve(theta, torch.from_numpy(moves), kind, limit, complete=False)
            mu = solved.marginals.numpy()
            own = worth(solved.faces, 3, T) if kind == CHAIN else 0.0
            assert abs(vertices.residual(points, theta.numpy(), mu, b, own)) < 1e-9
            assert mu == pytest.approx(vertices.nearest(points, theta.numpy(), b), abs=1e-6)
            assert len(solved.faces.weight) <= math.prod(shape) + 1


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


@every_map
def test_facts(name):
    entry, theta = MAPS[name], scores(50, 6, 6, scale=2.0)
    p = entry(theta)
    assert entry.acts_on == "matrix" and entry.sparse and not entry.ordered and not entry.stochastic
    assert (p == 0).any() and (p >= 0).all()
    higher, heavier = theta.unsqueeze(-1) - theta.unsqueeze(-2), p.unsqueeze(-1) - p.unsqueeze(-2)
    assert (heavier[higher > 0] < -1e-6).any()
    theta_turned, p_turned = (x.roll((1, 1), (-2, -1)) for x in (theta, p))  # words, or both sides, in turn
    assert entry.neighbours != torch.allclose(entry(theta_turned), p_turned, atol=1e-9)
    rows = entry(scores(20, 6, 4)).sum(-1) if name == "sparsemap_matching" else p.sum(-1)
    assert entry.simplex == torch.allclose(rows, torch.ones_like(rows))
    assert entry.says.endswith(".")


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


@every_map
def test_first_and_second_gradients_under_a_mask(name):
    x = scores(4, 4, 4, seed=3).requires_grad_()
    hidden = torch.zeros(4, 4, 4, dtype=torch.bool)
    hidden[1, 0, 3] = hidden[1, 3, 0] = True
    hidden[2, 1], hidden[2, :, 1] = True, True
    hidden[3] = True
    for function in (MAPS[name], lambda x: MAPS[name](x.masked_fill(hidden, -INF))):
        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)
    (grad,) = torch.autograd.grad(MAPS[name](x.masked_fill(hidden, -INF)).square().sum(), x)
    assert (grad[hidden] == 0).all()


@every_map
def test_vmap_and_every_order_of_torch_func(name):
    f, x = MAPS[name], scores(3, 4, 4, seed=1)
    want = torch.stack([torch.autograd.functional.jacobian(f, one) for one in x])
    for jacobian in (vmap(jacrev(f)), vmap(jacfwd(f))):
        torch.testing.assert_close(jacobian(x), want)
    torch.testing.assert_close(jacrev(f)(x), torch.autograd.functional.jacobian(f, x))
    torch.testing.assert_close(vmap(f, in_dims=1, out_dims=1)(x.transpose(0, 1)), f(x).transpose(0, 1))
    torch.testing.assert_close(
        torch.autograd.functional.jacobian(f, x, vectorize=True), torch.autograd.functional.jacobian(f, x)
    )

    def g(x):
        return (f(x) ** 2).sum()

    second = torch.autograd.functional.hessian(g, x[0])
    torch.testing.assert_close(jacrev(jacrev(g))(x[0]), second)
    torch.testing.assert_close(hessian(g)(x[0]), second)
    torch.testing.assert_close(vmap(hessian(g))(x)[0], second)


@every_map
def test_compiles_without_a_graph_break(name):
    torch._dynamo.reset()
    f, x = MAPS[name], scores(2, 4, 4, seed=2).requires_grad_()
    compiled = torch.compile(f.function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), f(x))
    got, want = (torch.autograd.grad(h(x).square().sum(), x) for h in (compiled, f))
    torch.testing.assert_close(got, want)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), f(x))


@every_map
def test_half_precision_and_bad_input(name):
    theta = scores(5, 5).half()
    assert torch.equal(MAPS[name](theta), MAPS[name](theta.float()).half())
    with pytest.raises(DtypeError, match="scores must be float"):
        MAPS[name](torch.zeros(2, 2, dtype=torch.int64))
    assert torch.equal(theta, scores(5, 5).half())  # as it was


def heaviest(k):
    def function(scores):
        vertex = torch.zeros_like(scores)
        vertex[scores.topk(k).indices] = 1
        return vertex

    return Oracle(function)


ATTENDING = {
    "sparsemap_matching": "sparsemap_matching",
    "sparsemap_tree": "sparsemap_tree",
    "module": SparseMap(Tree()),
    "own": SparseMap(heaviest(2)),
    "choice": SparseMap(Choice()),
}


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


@pytest.mark.parametrize("map", ["sparsemap_tree", "sparsemap_matching"])
def test_padding_changes_nothing(map):
    x = scores(2, 6, 8, seed=5)
    x[1, 4:] = math.nan
    lengths = torch.tensor([6, 4])
    there = torch.arange(6) < lengths[:, None]
    mask = Lengths(lengths) if map == "sparsemap_tree" else there.unsqueeze(-1) & there.unsqueeze(-2)
    q = x.clone()
    q[1, 4:] = 0.0
    whole = attend(q, x, map=map, mask=mask)
    alone = attend(x[1, :4], x[1, :4], map=map)
    torch.testing.assert_close(whole.weights[1, :4, :4], alone.weights)
    torch.testing.assert_close(whole.context[1, :4], alone.context)
    assert (whole.weights[1, 4:] == 0).all() and (whole.weights[1, :, 4:] == 0).all()


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
