"""The solver itself: oracles, chains with transitions, the factor, and what ends it."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from torch.func import jacfwd, jacrev, vmap

from regard.kernels.sparsemap.active_set import attach, drop, empty
from regard.kernels.sparsemap.assignment import assign
from regard.kernels.sparsemap.eisner import TABLES, tree
from regard.kernels.sparsemap.sparsemap_batch import CHAIN, MATCHING, solve
from regard.kernels.sparsemap.sparsemap_operator import best, nearest, solve_chain
from regard.maps import sparsemax
from structures import vertices

INF = np.inf


def assigned(cost, price):
    m, n = cost.shape
    column, row = np.empty(m, np.int64), np.empty(n, np.int64)
    found = assign(cost, m, n, price, column, row, np.empty(m), np.empty(n), np.empty((2, n), np.int64))
    return column if found else None


@given(
    seed=st.integers(0, 10**6), m=st.integers(1, 9), wider=st.integers(0, 4), share=st.sampled_from([0, 0.4])
)
def test_the_assignment_is_scipys(seed, m, wider, share):
    rng = np.random.default_rng(seed)
    cost = rng.normal(size=(m, m + wider))
    cost = cost.round() if seed % 3 == 0 else cost
    cost[rng.random(cost.shape) < share] = INF
    cost[np.isinf(cost).all(1), 0] = 0.0  # a row that is all hidden does not come here
    column = assigned(cost, np.zeros(m + wider) if wider else rng.normal(size=m))
    try:
        want = cost[linear_sum_assignment(cost)].sum()
    except ValueError:
        assert column is None
    else:
        assert len(set(column.tolist())) == m
        assert cost[range(m), column].sum() == pytest.approx(want)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), share=st.sampled_from([0, 0.3]))
def test_eisner_finds_the_best_of_all_projective_trees(seed, n, share):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, n))
    scores = scores.round() if seed % 3 == 0 else scores
    scores[rng.random((n, n)) < share] = -INF
    head, room = np.empty(n, np.int64), (np.empty((TABLES, n, n)), np.empty((4 * n + 4, 3), np.int64))
    top = tree(scores, n, head, *room)
    assert top == pytest.approx(vertices.best(vertices.trees(n), scores))
    if top > -INF:
        assert vertices.is_projective(head.tolist())
        assert scores[range(n), head].sum() == pytest.approx(top)


@given(seed=st.integers(0, 10**6))
def test_the_factor_stays_that_of_the_gram_matrix(seed):
    rng = np.random.default_rng(seed)
    d, size = 12, 0
    active, dense, rows = empty(64, d), np.zeros(d), []
    for _ in range(40):
        if size and rng.random() < 0.4:
            i = int(rng.integers(size))
            drop(active, size, i)
            rows.pop(i)
            size -= 1
        else:
            a = rng.integers(0, 2, d).astype(float)
            where, s = a.nonzero()[0], active.slot[size]
            active.count[s] = len(where)
            active.where[s, : len(where)], active.value[s, : len(where)] = where, 1
            together = np.array([*rows, a])
            independent = np.linalg.matrix_rank(np.c_[together, np.ones(len(together))]) == len(together)
            assert attach(active, size, dense) == independent
            if independent:
                active.weight[size] = 0
                rows.append(a)
                size += 1
        A, L = np.array(rows).reshape(size, d), np.tril(active.factor[:size, :size])
        np.testing.assert_allclose(L @ L.T, A @ A.T + 1, atol=1e-9)
        np.testing.assert_allclose(L @ active.ones[:size], np.ones(size), atol=1e-9)
        assert (dense == 0).all()


def chain_scores(n, s, seed, scale=1.0, batch=()):
    g = torch.Generator().manual_seed(seed)
    theta = torch.randn(*batch, n, s, generator=g, dtype=torch.float64) * scale
    return theta, torch.randn(s, s, generator=g, dtype=torch.float64) * scale


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 4), s=st.integers(1, 3), scale=st.sampled_from([0.1, 1, 3])
)
def test_a_chain_is_optimal_among_all_paths(seed, n, s, scale):
    theta, T = chain_scores(n, s, seed, scale)
    points, extra = vertices.paths(n, s, T.tolist())
    solved = solve(theta, T, CHAIN, 0)
    faces = solved.faces
    worth = 0.0
    for v in range(len(faces.count)):
        states = faces.where[v, : faces.count[v]] % s
        worth += faces.weight[v] * sum(T[a, b].item() for a, b in pairwise(states))
    mu = solved.marginals.numpy()
    assert vertices.residual(points, theta.numpy(), mu, extra, worth) < 1e-11
    torch.testing.assert_close(solved.marginals.sum(-1), torch.ones(n, dtype=torch.float64))
    assert torch.equal(solve_chain(theta, T), solve(theta, T, CHAIN, 0, complete=False).marginals)
    vertex = best(theta, T, CHAIN, 0).numpy()
    total = (vertex * theta.numpy()).sum() + extra[(points == vertex).all((1, 2))][0]
    assert total == pytest.approx(vertices.best(points, theta.numpy(), extra))


@pytest.mark.parametrize("seed", range(4))
def test_a_general_solver_finds_the_same_chain(seed):
    theta, T = chain_scores(3, 3, seed)
    points, extra = vertices.paths(3, 3, T.tolist())
    want = vertices.nearest(points, theta.numpy(), extra)
    assert solve_chain(theta, T).numpy() == pytest.approx(want, abs=1e-6)


def test_without_transitions_a_chain_is_a_choice_at_each_place():
    theta, _ = chain_scores(6, 4, 0, batch=(3,))
    torch.testing.assert_close(solve_chain(theta, torch.zeros(4, 4)), sparsemax(theta), rtol=0, atol=1e-12)


def test_gradients_of_a_chain_in_scores_and_transitions():
    for seed, scale in ((0, 1.0), (1, 0.5)):
        theta, T = (t.requires_grad_() for t in chain_scores(5, 3, seed, scale, batch=(2,)))
        each = torch.stack([T.detach(), T.detach() * 0.7]).requires_grad_()
        for moves in (T, each):
            assert torch.autograd.gradcheck(solve_chain, (theta, moves))
            assert torch.autograd.gradgradcheck(solve_chain, (theta, moves))
        want = torch.autograd.functional.jacobian(solve_chain, (theta, T))
        x = theta.detach(), T.detach()
        for transform in (jacrev, jacfwd):
            got = transform(solve_chain, argnums=(0, 1))(*x)
            torch.testing.assert_close(got, want)
        torch.testing.assert_close(
            vmap(jacrev(solve_chain, argnums=1), in_dims=(0, None))(*x), want[1], rtol=0, atol=1e-12
        )


def test_hidden_states_and_places_of_a_chain():
    theta, T = chain_scores(6, 3, 2)
    shown = theta.clone()
    shown[2] = shown[4] = -INF
    kept = [0, 1, 3, 5]
    mu = solve_chain(shown, T)
    torch.testing.assert_close(mu[kept], solve_chain(theta[kept], T))
    assert (mu[[2, 4]] == 0).all()
    shown = theta.clone()
    shown[1, 2] = -INF
    assert solve_chain(shown, T)[1, 2] == 0
    forbidden = torch.full((3, 3), -INF, dtype=torch.float64)
    with pytest.raises(ValueError, match="scores must leave room for a path"):
        solve_chain(theta, forbidden)
    forbidden.fill_diagonal_(0)
    assert torch.equal(solve_chain(theta * 100, forbidden), best(theta, forbidden, CHAIN, 0))


def test_a_chain_in_float32():
    theta, T = chain_scores(8, 3, 3)
    mu = solve_chain(theta.float(), T.float())
    assert mu.dtype == torch.float32
    torch.testing.assert_close(mu, solve_chain(theta, T).float(), rtol=0, atol=1e-5)


def test_forward_mode_inside_forward_mode_is_refused():
    theta = torch.randn(3, 3, dtype=torch.float64)
    nothing = theta.new_zeros(0, 0)
    with pytest.raises(NotImplementedError, match="forward-mode derivative of a forward-mode"):
        jacfwd(jacfwd(lambda x: nearest(x, nothing, MATCHING, 0).square().sum()))(theta)
