"""A structure of one's own: a Python function, right or wrong."""

import copy
import gc
import math
import pickle
from importlib import import_module
from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import jacrev, vmap

from regard.structures import Matching, Oracle
from structures import vertices

COSTS, ROOM = (3, 4, 2, 5, 1), 7
INF = math.inf


def knapsack(scores):
    """The best set of things that fit, by dynamic programming over the room that is left."""
    best = [(0.0, ())] * (ROOM + 1)
    for item, (score, cost) in enumerate(zip(scores.tolist(), COSTS, strict=True)):
        for room in range(ROOM, cost - 1, -1):
            if score > -INF:
                best[room] = max(best[room], (best[room - cost][0] + score, (*best[room - cost][1], item)))
    vertex = torch.zeros_like(scores)
    vertex[list(best[ROOM][1])] = 1
    return vertex


SACKS = np.array([a for a in product((0.0, 1.0), repeat=5) if np.dot(a, COSTS) <= ROOM])


def spanning_tree(scores):
    """The heaviest spanning tree of a graph whose edges are the pairs i < j (Kruskal)."""
    n = len(scores)
    part, vertex = list(range(n)), torch.zeros_like(scores)
    for i, j in sorted(combinations(range(n), 2), key=lambda e: -scores[e].item()):
        if part[i] != part[j] and scores[i, j] > -INF:
            vertex[i, j] = 1
            part = [part[i] if p == part[j] else p for p in part]
    return vertex


def among(points, extra=None):
    """The oracle that looks at every vertex."""

    def enumerated(scores):
        flat = scores.reshape(-1).clamp(min=-1e30).numpy()
        total = points @ flat + (0 if extra is None else extra)
        best = int(total.argmax())
        vertex = torch.from_numpy(points[best]).reshape(scores.shape)
        return vertex if extra is None else (vertex, float(extra[best]))

    return enumerated


def scores(*shape, seed=0, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64) * scale


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.3, 1.0, 5.0]))
def test_a_knapsack(seed, scale):
    theta = scores(5, seed=seed, scale=scale)
    s = Oracle(knapsack).solve(theta)
    assert vertices.residual(SACKS, theta.numpy(), s.marginals.numpy()) < 1e-12
    torch.testing.assert_close((s.weights[:, None] * s.structures).sum(0), s.marginals, rtol=0, atol=1e-12)
    assert s.gap < 1e-12 and len(s.weights) <= 6
    best = Oracle(knapsack).best(theta)
    assert (best * theta).sum().item() == pytest.approx(vertices.best(SACKS, theta.numpy()))


def test_its_gradients():
    x = scores(3, 5).requires_grad_()
    assert torch.autograd.gradcheck(Oracle(knapsack).nearest, x)
    assert torch.autograd.gradgradcheck(Oracle(knapsack).nearest, x)
    want = torch.stack([torch.autograd.functional.jacobian(Oracle(knapsack).nearest, row) for row in x])
    sacks = Oracle(knapsack)
    torch.testing.assert_close(vmap(jacrev(sacks.nearest))(x.detach()), want)
    assert torch.equal(vmap(sacks.best)(x.detach()), sacks.best(x))


def test_spanning_trees_of_a_matrix():
    theta = scores(2, 4, 4).requires_grad_()
    trees = Oracle(spanning_tree, acts_on="matrix")
    mu = trees.nearest(torch.where(torch.ones(4, 4).triu(1) > 0, theta, -INF))
    assert mu.shape == (2, 4, 4) and (mu.tril() == 0).all()
    torch.testing.assert_close(mu.sum((-2, -1)), torch.full((2,), 3.0, dtype=torch.float64))
    (grad,) = torch.autograd.grad(mu.square().sum(), theta)
    assert (grad.tril() == 0).all() and grad.abs().sum() > 0


def test_a_function_and_a_kernel_with_the_same_vertices_agree():
    theta = scores(3, 4, 4).requires_grad_()
    own = Oracle(among(vertices.matchings(4, 4).reshape(-1, 16)), acts_on="matrix")
    answers = [structure.nearest(theta) for structure in (own, Matching())]
    torch.testing.assert_close(*answers)
    torch.testing.assert_close(*(torch.autograd.grad(mu.square().sum(), theta)[0] for mu in answers))


@given(
    seed=st.integers(0, 10**6), d=st.integers(1, 4), k=st.integers(1, 16), scale=st.sampled_from([0.1, 1.0])
)
def test_vertices_with_scores_of_their_own(seed, d, k, scale):
    """Vertices that depend on each other affinely, and differ in b: pivots of the simplex method."""
    rng = np.random.default_rng(seed)
    points = np.unique(rng.integers(0, 2, (k, d)).astype(float), axis=0)
    extra = rng.normal(size=len(points)) * rng.integers(0, 2)
    theta = scores(d, seed=seed, scale=scale)
    s = Oracle(among(points, extra)).solve(theta)
    worth = sum(
        w * extra[(points == a).all(-1)][0]
        for w, a in zip(s.weights.tolist(), s.structures.numpy(), strict=True)
        if w > 0
    )
    assert vertices.residual(points, theta.numpy(), s.marginals.numpy(), extra, worth) < 1e-10
    assert len(s.weights) <= d + 1


def test_a_vertex_inside_the_others_hull_comes_in_for_its_own_score():
    points = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    for diagonal, other in ((5.0, 0.0), (0.0, 5.0)):
        extra = np.array([diagonal, diagonal, other, other])
        s = Oracle(among(points, extra)).solve(torch.tensor([0.5, 0.5], dtype=torch.float64))
        assert s.marginals.tolist() == pytest.approx([0.5, 0.5])
        want = points[:2] if diagonal else points[2:]
        assert sorted(map(tuple, s.structures.tolist())) == sorted(map(tuple, want))


def test_vertices_that_are_not_0_and_1():
    corners = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    triangle = Oracle(among(corners), binary=False)
    inside = torch.tensor([0.3, 0.5], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(triangle.nearest(inside), inside)
    assert torch.autograd.gradcheck(triangle.nearest, inside)
    below = torch.tensor([0.3, -4.0], dtype=torch.float64)
    assert triangle.nearest(below).tolist() == pytest.approx([0.3, 0.0])
    with pytest.raises(
        ValueError, match=r"oracle enumerated must return a vertex of 0s and 1s; got \[2.0, 0.0\]"
    ):
        Oracle(among(corners)).nearest(below + 1)


def test_hidden_keys_nothing_and_nan():
    theta = scores(4, 5)
    theta[0, 1], theta[1], theta[2, 0] = -INF, -INF, math.nan
    x = theta.clone().requires_grad_()
    mu = Oracle(knapsack).nearest(x)
    assert mu[0, 1] == 0 and (mu[1] == 0).all() and mu[2].isnan().all()
    (grad,) = torch.autograd.grad(mu[[0, 1, 3]].sum(), x)
    assert grad[0, 1] == 0 and (grad[1] == 0).all() and grad[3].isfinite().all()
    assert Oracle(knapsack).nearest(torch.zeros(0, 5)).shape == (0, 5)
    assert Oracle(knapsack).nearest(scores(2, 5).half()).dtype == torch.float16


def wrong_shape(scores):
    return torch.zeros(len(scores) + 1)


def no_tensor(scores):
    return [0.0] * len(scores)


def not_a_number(scores):
    return torch.full_like(scores, math.nan)


def fractional(scores):
    return torch.full_like(scores, 0.5)


def uses_the_hidden(scores):
    return torch.ones_like(scores)


def lowest(scores):
    vertex = torch.zeros_like(scores)
    vertex[scores.argmin()] = 1
    return vertex


def better_later():
    calls = []

    def late(scores):
        calls.append(scores)
        vertex = torch.zeros_like(scores)
        vertex[scores.argmin() if len(calls) == 1 else scores.argmax()] = 1
        return vertex

    return late


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong_shape, r"oracle wrong_shape must return a tensor of shape \(4,\); got \(5,\)"),
        (no_tensor, r"oracle no_tensor must return a tensor of shape \(4,\); got list"),
        (not_a_number, "oracle not_a_number must return a finite vertex"),
        (fractional, "oracle fractional must return a vertex of 0s and 1s.*binary=False"),
        (uses_the_hidden, "oracle uses_the_hidden must not use masked coordinates.*position 1"),
        (better_later(), "oracle late must return the vertex of the highest score"),
    ],
)
def test_a_wrong_oracle_is_named(function, message):
    theta = (
        torch.tensor([0.5, -INF, 1.0, 0.2]) if function is uses_the_hidden else torch.tensor([0.5, 2, 1, 0.2])
    )
    with pytest.raises(ValueError, match=message):
        Oracle(function).nearest(theta)


def test_a_better_vertex_that_is_never_returned_cannot_be_seen():
    theta = torch.tensor([0.5, 2, 1, 0.2])
    assert Oracle(lowest).nearest(theta).tolist() == [0, 0, 0, 1]


def test_a_solver_that_is_stopped_is_feasible_and_says_how_far_off_it_can_be(monkeypatch):
    monkeypatch.setattr(import_module("regard.kernels.sparsemap.sparsemap_rows"), "rounds", lambda d: 2)
    theta = torch.zeros(6, dtype=torch.float64)
    with pytest.warns(
        RuntimeWarning, match="SparseMAP over a structure stopped early in 1 of 1.*gap of up to"
    ):
        s = Oracle(among(np.eye(6))).solve(theta)
    assert s.marginals.sum().item() == pytest.approx(1)
    assert s.gap.item() >= (s.marginals - 1 / 6).square().sum().item()


def test_a_mixture_of_vertices_is_no_vertex():
    calls = []

    def lazy(scores):  # at ties it returns the mean of the best, as an interior-point solver does
        calls.append(scores)
        corners = torch.eye(3, dtype=scores.dtype)
        total = scores - scores.max()
        return corners[total > -1e-9].mean(0) if len(calls) > 2 else corners[scores.argmax()]

    with pytest.raises(ValueError, match="oracle lazy must return a vertex; got .* a mixture of 2"):
        Oracle(lazy, binary=False).nearest(torch.tensor([0.5, 0.5, -3.0], dtype=torch.float64))


def test_bad_settings_are_named():
    with pytest.raises(TypeError, match="function must be callable; got int"):
        Oracle(3)
    with pytest.raises(ValueError, match='acts_on must be "row" or "matrix"; got \'rows\''):
        Oracle(knapsack, acts_on="rows")


def test_errors_of_the_function_come_through():
    def broken(scores):
        raise RuntimeError("my own error")

    with pytest.raises(RuntimeError, match="my own error"):
        Oracle(broken).nearest(torch.zeros(3))


def test_copies_are_structures_of_their_own_and_graphs_keep_theirs():
    first = Oracle(knapsack)
    theta = scores(2, 5).requires_grad_()
    want = first.nearest(theta)
    for other in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert other.limit != first.limit
        torch.testing.assert_close(other.nearest(theta), want)
    mu = Oracle(knapsack).nearest(theta)
    gc.collect()
    together = torch.autograd.grad(mu, theta, torch.ones(3, 2, 5, dtype=theta.dtype), is_grads_batched=True)[
        0
    ]
    (one,) = torch.autograd.grad(want, theta, torch.ones(2, 5, dtype=theta.dtype))
    torch.testing.assert_close(together, one.expand(3, 2, 5))
