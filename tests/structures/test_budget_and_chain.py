"""Budgets and chains as structures: the few sets that make the marginals, and the best of all."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels.sparsemap.sparsemap_batch import BUDGET, CHAIN, MATCHING, TREE, solve
from regard.maps import sparsemap_budget, sparsemap_chain
from regard.structures import Budget, Chain
from structures import vertices
from structures.binary_chains import KINDS, rows

INF, NAN = math.inf, math.nan
score = st.floats(-3, 3, width=32) | st.integers(-2, 2).map(float)
four = st.lists(score, min_size=4, max_size=4).map(lambda t: [t[:2], t[2:]])
every_kind = pytest.mark.parametrize("kind", KINDS)
every_budget = pytest.mark.parametrize("k", [0, 1, 2, 7, 100])


def scores(*shape, seed=0, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64) * scale


def check_marginals_are_made(solution, dtype):
    """Structures of 0 and 1, weighted, give the marginals."""
    made = (solution.weights.unsqueeze(-1) * solution.structures).sum(-2)
    torch.testing.assert_close(
        made, solution.marginals, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-11
    )
    assert ((solution.structures == 0) | (solution.structures == 1)).all()


@every_kind
@pytest.mark.parametrize("n", [1, 30, 700])
def test_long_rows_leave_no_gap(kind, n):
    solution = Chain(KINDS[kind]).solve(rows(n))
    assert solution.gap.abs().max() < 1e-8
    assert (solution.marginals >= 0).all()
    assert (solution.marginals <= 1).all()


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_level_sets_make_the_marginals(kind, dtype):
    scores, T = rows(40, dtype), KINDS[kind].to(dtype)
    scores[:3, ::3] = -INF
    solution = Chain(T).solve(scores)
    check_marginals_are_made(solution, dtype)
    assert solution.marginals.equal(sparsemap_chain(scores, T))
    assert (solution.structures[:3, :, ::3] == 0).all()
    assert (solution.weights.diff() <= 0).all()
    torch.testing.assert_close(solution.weights.sum(-1), torch.ones(8, dtype=dtype))
    for weights, marginals, structures in zip(
        solution.weights, solution.marginals, solution.structures, strict=True
    ):
        used = int((weights > 0).sum())
        turned = torch.cat([marginals, 1 - marginals]).double().mul(1e6).round().unique()
        assert used <= len(turned) + 1
        assert (structures[used:] == 0).all()


@given(theta=st.lists(score, min_size=1, max_size=5), T=four)
def test_the_best_sequence_is_the_best(theta, T):
    def value(z):
        return sum(t * on for t, on in zip(theta, z, strict=True)) + sum(
            T[int(a)][int(b)] for a, b in pairwise(z)
        )

    found = Chain(torch.tensor(T, dtype=torch.float64)).best(torch.tensor(theta, dtype=torch.float64))
    every = list(product((0.0, 1.0), repeat=len(theta)))
    assert tuple(found.tolist()) in every
    assert value(found.tolist()) == pytest.approx(max(map(value, every)), abs=1e-12)


def test_structures_of_rows_without_keys_or_numbers():
    scores = torch.tensor([[-INF, -INF, -INF], [0.5, NAN, 1], [0.5, 0.75, -INF]], requires_grad=True)
    chain = Chain()
    solution = chain.solve(scores)
    assert (solution.weights[0] == 0).all()
    assert (solution.structures[0] == 0).all()
    assert solution.gap[0] == 0
    assert solution.weights[1].isnan().all()
    assert solution.gap[1].isnan()
    solution.marginals[2, 0].backward()
    assert scores.grad[2].abs().sum() > 0
    assert chain.best(scores)[1].isnan().all()
    assert chain.best(scores)[2].tolist() == [1, 1, 0]
    assert chain.solve(torch.zeros(2, 0)).structures.shape == (2, 1, 0)
    assert repr(chain) == "Chain(1.0, states=None)"


@every_budget
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sets_make_the_marginals(k, dtype):
    torch.manual_seed(k)
    scores = torch.randn(3, 6, 40).to(dtype)
    scores[0], scores[1] = scores[0].round(), scores[1] / 8
    scores[2, :, ::3] = -INF
    solution = Budget(k).solve(scores)
    check_marginals_are_made(solution, dtype)
    assert solution.marginals.equal(sparsemap_budget(scores, k))
    assert (solution.structures.sum(-1) <= k).all()
    assert (solution.weights >= 0).all() and (solution.weights.diff() <= 0).all()
    torch.testing.assert_close(solution.weights.sum(-1), torch.ones(3, 6, dtype=dtype))
    free = ((solution.marginals > 0) & (solution.marginals < 1)).sum(-1)
    assert ((solution.weights > 0).sum(-1) <= free + 1).all()
    assert (solution.weights > 0).sum(-1).amax() == solution.weights.shape[-1]
    assert solution.gap.abs().max() < 1e-5 if dtype == torch.float32 else solution.gap.abs().max() < 1e-12


@given(theta=st.lists(score, min_size=1, max_size=5), k=st.integers(0, 6))
def test_the_best_set_is_the_best(theta, k):
    scores = torch.tensor(theta, dtype=torch.float64)
    found = Budget(k).best(scores)
    assert set(found.tolist()) <= {0, 1} and found.sum() <= k
    every = [z for z in product((0, 1), repeat=len(theta)) if sum(z) <= k]
    assert found @ scores == max(sum(t * on for t, on in zip(theta, z, strict=True)) for z in every)


def test_sets_of_rows_without_keys_or_numbers():
    scores = torch.tensor([[-INF, -INF, -INF], [0.5, NAN, 1], [0.5, 0.75, 1]], requires_grad=True)
    budget = Budget(2)
    solution = budget.solve(scores)
    assert (solution.weights[0] == 0).all() and (solution.structures[0] == 0).all() and solution.gap[0] == 0
    assert solution.weights[1].isnan().all() and solution.gap[1].isnan()
    solution.marginals[2, 0].backward()
    assert scores.grad[2].abs().sum() > 0
    assert budget.best(scores)[0].tolist() == [0, 0, 0] and budget.best(scores)[1].isnan().all()
    assert budget.solve(torch.zeros(2, 0)).structures.shape == (2, 1, 0)
    assert budget.solve(torch.zeros(0, 4)).marginals.shape == (0, 4)
    assert repr(budget) == "Budget(2)"


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


def test_more_states():
    g = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, 3, generator=g, dtype=torch.float64)
    T = torch.randn(3, 3, generator=g, dtype=torch.float64)
    every = [sparsemap_chain(scores, T, states=3, state=state) for state in range(3)]
    torch.testing.assert_close(sum(every), torch.ones(4, 6, dtype=torch.float64))
    solution = Chain(T, states=3).solve(scores)
    torch.testing.assert_close(torch.stack(every, -1), solution.marginals)
    made = (solution.weights[..., None, None] * solution.structures).sum(-3)
    torch.testing.assert_close(made, solution.marginals)
    assert solution.gap.abs().max() < 1e-9
    best = Chain(T, states=3).best(scores)
    paths = list(product(range(3), repeat=6))
    for x, found in zip(scores, best, strict=True):
        values = [sum(x[i, a] for i, a in enumerate(z)) + T[z[:-1], z[1:]].sum() for z in paths]
        top = paths[int(torch.stack(values).argmax())]
        assert found.argmax(-1).tolist() == list(top)
