"""Choice, budget, matching and tree against all their vertices."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DtypeError, ShapeError
from regard.kernels.sparsemap.sparsemap_batch import BUDGET
from regard.maps import sparsemax
from regard.structures import Choice, Matching, Solution, Structure, Tree
from regard.structures.built_in import BuiltIn
from structures import vertices

INF = math.inf


class AtMostTwo(BuiltIn):
    """The budget by the generic solver."""

    kind, limit = BUDGET, 2


class Simplex(Choice):
    """Choice by the generic solver."""

    nearest = BuiltIn.nearest


CASES = {  # a structure, the shape of its scores, its vertices
    "choice": (Choice(), (5,), vertices.choices(5)),
    "simplex": (Simplex(), (5,), vertices.choices(5)),
    "budget": (AtMostTwo(), (5,), vertices.budgets(5, 2)),
    "square": (Matching(), (4, 4), vertices.matchings(4, 4)),
    "wide": (Matching(), (3, 4), vertices.matchings(3, 4)),
    "tall": (Matching(), (4, 2), vertices.matchings(4, 2)),
    "tree": (Tree(), (4, 4), vertices.trees(4)),
    "one word": (Tree(), (1, 1), vertices.trees(1)),
}
every_case = pytest.mark.parametrize("case", CASES)


def scores(shape, seed, scale=1.0, batch=()):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, *shape, generator=g, dtype=torch.float64) * scale


def written_out(solution: Solution) -> torch.Tensor:
    batch = solution.gap.dim()
    weights = solution.weights.reshape(*solution.weights.shape, *[1] * (solution.marginals.dim() - batch))
    return (weights * solution.structures).sum(batch)


def test_there_are_as_many_projective_trees_as_there_should_be():
    assert [len(vertices.trees(n)) for n in range(1, 6)] == [1, 2, 7, 30, 143]


@every_case
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 5.0]), tied=st.booleans())
def test_best_is_a_vertex_of_the_highest_score(case, seed, scale, tied):
    structure, shape, all_vertices = CASES[case]
    theta = scores(shape, seed, scale)
    theta = theta.round() if tied else theta
    a = structure.best(theta).numpy()
    assert any((a == v).all() for v in all_vertices)
    assert (a * theta.numpy()).sum() == pytest.approx(vertices.best(all_vertices, theta.numpy()))


@every_case
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 5.0]), tied=st.booleans())
def test_nearest_is_the_nearest_point_of_the_hull(case, seed, scale, tied):
    structure, shape, all_vertices = CASES[case]
    theta = scores(shape, seed, scale)
    theta = (2 * theta).round() / 2 if tied else theta
    s = structure.solve(theta)
    assert vertices.residual(all_vertices, theta.numpy(), s.marginals.numpy()) < 1e-12
    torch.testing.assert_close(written_out(s), s.marginals, rtol=0, atol=1e-12)  # so it is in the hull
    torch.testing.assert_close(structure.nearest(theta), s.marginals, rtol=0, atol=1e-12)


@every_case
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_a_general_solver_finds_the_same_point(case, scale):
    structure, shape, all_vertices = CASES[case]
    for seed in range(3):
        theta = scores(shape, seed, scale)
        want = vertices.nearest(all_vertices, theta.numpy())
        assert structure.nearest(theta).numpy() == pytest.approx(want, abs=1e-6)


@every_case
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_solve_shows_the_few_structures(case, seed, scale):
    structure, shape, all_vertices = CASES[case]
    theta = scores(shape, seed, scale, batch=(2, 2))
    s = structure.solve(theta)
    torch.testing.assert_close(s.marginals, structure.nearest(theta), rtol=0, atol=1e-12)
    torch.testing.assert_close(written_out(s), s.marginals, rtol=0, atol=1e-12)
    assert s.gap.shape == (2, 2) and (s.gap >= 0).all() and (s.gap < 1e-12).all()
    assert (s.weights >= 0).all() and (s.weights.diff(dim=-1) <= 0).all()
    torch.testing.assert_close(s.weights.sum(-1), torch.ones(2, 2, dtype=torch.float64))
    assert s.weights.shape[-1] <= math.prod(shape) + 1
    for k in range(s.weights.shape[-1]):
        for b in np.ndindex(2, 2):
            a = s.structures[(*b, k)].numpy()
            assert any((a == v).all() for v in all_vertices) if s.weights[(*b, k)] > 0 else not a.any()


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), scale=st.sampled_from([0.01, 1.0, 5.0]))
def test_the_generic_solver_over_a_choice_is_sparsemax(seed, n, scale):
    theta = scores((n,), seed, scale)
    torch.testing.assert_close(Simplex().nearest(theta), sparsemax(theta), rtol=0, atol=1e-12)
    assert torch.equal(Choice().nearest(theta), sparsemax(theta))


def test_choice_and_sparsemax_have_the_same_gradient_at_ties():
    for theta in ([1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, -3.0], [0.5, 0.5, -1.0, -1.0]):
        grads = []
        for function in (Simplex().nearest, Choice().nearest, sparsemax):
            x = torch.tensor(theta, dtype=torch.float64)
            grads.append(torch.autograd.functional.jacobian(function, x))
        torch.testing.assert_close(grads[0], grads[2])
        assert torch.equal(grads[1], grads[2])


@every_case
def test_first_and_second_gradients(case):
    structure, shape, _ = CASES[case]
    for scale in (0.3, 1.5):
        x = scores(shape, 7, scale, batch=(3,)).requires_grad_()
        assert torch.autograd.gradcheck(structure.nearest, x)
        assert torch.autograd.gradgradcheck(structure.nearest, x)
        assert torch.autograd.gradcheck(lambda x: structure.solve(x).marginals, x)


@pytest.mark.parametrize("case", ["choice", "simplex", "square", "wide", "tall"])
def test_the_gradient_is_exact_where_all_scores_are_equal(case):
    """A few of the vertices make the point, and μ can move in many more directions than they span."""
    structure, shape, _ = CASES[case]
    assert torch.autograd.gradcheck(
        structure.nearest, torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    )


def test_the_gradient_is_exact_where_the_last_weights_are_lost_in_rounding():
    """The Jacobian is the projector onto a face of Birkhoff's polytope, whose dimension its zeros tell."""
    theta = scores((12, 12), 0, 0.1).requires_grad_()
    mu = Matching().nearest(theta)
    jacobian = torch.autograd.functional.jacobian(Matching().nearest, theta).reshape(144, 144)
    torch.testing.assert_close(jacobian @ jacobian, jacobian, rtol=0, atol=1e-9)
    assert jacobian.trace().item() == pytest.approx(
        int((mu > 0).sum()) - 2 * 12 + 1
    )  # its graph is connected


@every_case
def test_scores_as_large_as_a_million(case):
    structure, shape, all_vertices = CASES[case]
    for seed in range(5):
        theta = scores(shape, seed, 1e6, batch=(3,))
        mu = structure.nearest(theta)
        assert torch.equal(mu, structure.best(theta))  # nothing is close
        theta = scores(shape, seed) + 1e6
        mu = structure.nearest(theta).numpy()
        assert vertices.residual(all_vertices, theta.numpy(), mu) < 1e-7
        if case != "budget":  # all vertices sum to the same: what is added to all scores changes nothing
            want = structure.nearest(theta - 1e6)
            torch.testing.assert_close(torch.from_numpy(mu), want, rtol=0, atol=1e-12)


@every_case
def test_in_float32_it_is_the_answer_of_float64_rounded(case):
    structure, shape, _ = CASES[case]
    theta = scores(shape, 3, batch=(6,)).float()
    assert structure.best(theta).dtype == torch.float32
    want = structure.nearest(theta.double())
    torch.testing.assert_close(structure.nearest(theta), want.float(), rtol=0, atol=2e-7)
    for dtype in (torch.bfloat16, torch.float16):
        half = structure.nearest(theta.to(dtype))
        assert half.dtype == dtype
        torch.testing.assert_close(half, structure.nearest(theta.to(dtype).float()).to(dtype))
    s = structure.solve(theta)
    assert {t.dtype for t in s} == {torch.float32}


@every_case
def test_instances_of_a_batch_do_not_see_each_other(case):
    structure, shape, _ = CASES[case]
    theta = scores(shape, 4, batch=(2, 3))
    torch.set_num_threads(2)
    together = structure.nearest(theta)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(together[i, j], structure.nearest(theta[i, j]), rtol=0, atol=1e-14)
    strided = scores(shape, 5, batch=(4,)).movedim(0, -1).contiguous().movedim(-1, 0)
    assert torch.equal(structure.nearest(strided), structure.nearest(strided.contiguous()))


def test_many_instances_in_threads_are_those_of_one():
    theta = scores((8, 8), 0, batch=(40,))
    answers = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        x = theta.clone().requires_grad_()
        mu = Matching().nearest(x)
        (grad,) = torch.autograd.grad(mu.square().sum(), x)
        answers.append((mu, grad))
    assert all(torch.equal(a, b) for a, b in zip(*answers, strict=True))


@every_case
def test_nan_and_infinity_are_shown_and_nothing_is_zeros(case):
    structure, shape, _ = CASES[case]
    theta = scores(shape, 6, batch=(4,))
    at = (0,) * len(shape)
    theta[(0, *at)], theta[(1, *at)], theta[2] = math.nan, INF, -INF
    x = theta.clone().requires_grad_()
    mu = structure.nearest(x)
    assert mu[:2].isnan().all() and (mu[2] == 0).all()
    torch.testing.assert_close(mu[3], structure.nearest(theta[3]))
    vertex = structure.best(theta)
    assert vertex[:2].isnan().all() and (vertex[2] == 0).all() and vertex[3].sum() >= 1
    (grad,) = torch.autograd.grad(mu[2:].sum(), x)
    assert (grad[2] == 0).all() and grad[3].isfinite().all()
    s = structure.solve(theta)
    assert s.gap[:2].isnan().all() and s.gap[2] == 0
    assert (s.weights[:3] == 0).all()


@every_case
def test_empty_batches(case):
    structure, shape, _ = CASES[case]
    for empty in (torch.zeros(0, *shape), torch.zeros(2, *[0] * len(shape)), torch.zeros([0] * len(shape))):
        x = empty.clone().requires_grad_()
        assert structure.nearest(x).shape == structure.best(empty).shape == empty.shape
        structure.nearest(x).sum().backward()
        assert x.grad.shape == empty.shape
    s = structure.solve(torch.zeros(2, *[0] * len(shape)))
    assert s.gap.tolist() == [0, 0] and s.weights.shape == (2, 0)


def masked(theta, hidden):
    return torch.where(hidden, -INF, theta)


@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.2, 0.4]))
def test_what_is_hidden_is_not_used(seed, share):
    for case in ("choice", "simplex", "square", "tall", "tree"):
        structure, shape, all_vertices = CASES[case]
        g = torch.Generator().manual_seed(seed)
        theta = masked(scores(shape, seed), torch.rand(shape, generator=g) < share)
        whole = all((theta > -INF).any(axis).all() for axis in range(len(shape))) or len(shape) == 1
        if not whole:  # some row or column is taken out: other vertices
            continue
        if vertices.best(all_vertices, theta.numpy()) == -INF:
            if (theta > -INF).any():
                with pytest.raises(ValueError, match="scores must leave room for a"):
                    structure.nearest(theta)
            continue
        mu = structure.nearest(theta)
        assert (mu[theta == -INF] == 0).all()
        assert vertices.residual(all_vertices, theta.numpy(), mu.numpy()) < 1e-12
        x = scores(shape, seed).requires_grad_()
        (grad,) = torch.autograd.grad(structure.nearest(masked(x, theta == -INF)).square().sum(), x)
        assert (grad[theta == -INF] == 0).all()


def test_hidden_rows_and_columns_of_a_matching_are_not_there():
    theta = scores((5, 5), 1)
    rows, columns = [0, 2, 3], [1, 2, 3, 4]
    shown = torch.full((5, 5), -INF, dtype=torch.float64)
    shown[np.ix_(rows, columns)] = theta[np.ix_(rows, columns)]
    mu = Matching().nearest(shown)
    torch.testing.assert_close(mu[np.ix_(rows, columns)], Matching().nearest(theta[np.ix_(rows, columns)]))
    assert mu.sum().item() == pytest.approx(3)
    x = theta.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: Matching().nearest(torch.where(shown > -INF, x, -INF)), x)


@pytest.mark.parametrize("how", ["rows", "columns", "both"])
def test_hidden_words_of_a_tree_are_not_there(how):
    theta, kept = scores((6, 6), 2), [0, 2, 3, 5]
    shown = theta.clone()
    for i in (1, 4):
        if how != "columns":
            shown[i] = -INF
        if how != "rows":
            shown[:, i] = -INF
    mu = Tree().nearest(shown)
    torch.testing.assert_close(mu[np.ix_(kept, kept)], Tree().nearest(theta[np.ix_(kept, kept)]))
    assert mu.sum().item() == pytest.approx(4)
    assert Tree().best(shown).sum() == 4


def test_what_no_structure_fits_is_named():
    theta = torch.zeros(2, 3, 2, 2)
    theta[1, 1] = torch.tensor([[0, -INF], [0, -INF]])  # a column of nothing is taken out: this fits
    assert Matching().nearest(theta[1, 1]).sum() == 1
    theta = torch.zeros(2, 3, 3, 3)
    theta[1, 2, :2, 1:] = -INF  # two rows for one column
    for method in (Matching().best, Matching().nearest, Matching().solve):
        with pytest.raises(ValueError, match=r"scores\[1, 2\] must leave room for a matching; got a mask"):
            method(theta)
    rootless = torch.zeros(2, 2)
    rootless[[0, 1], [0, 1]] = -INF
    with pytest.raises(ValueError, match="scores must leave room for a tree"):
        Tree().nearest(rootless)


def test_very_low_scores_are_as_good_as_hidden_ones():
    g = torch.Generator().manual_seed(0)
    for case in ("simplex", "square", "tree"):
        structure, shape, _ = CASES[case]
        theta, hidden = scores(shape, 9), torch.rand(shape, generator=g) < 0.2
        want = structure.nearest(masked(theta, hidden))
        torch.testing.assert_close(
            structure.nearest(torch.where(hidden, -1e9, theta)), want, rtol=0, atol=1e-9
        )


def test_bad_scores_are_named():
    with pytest.raises(ShapeError, match=r"scores must be \(..., n, n\), words by their heads.*got \(2, 3\)"):
        Tree().nearest(torch.zeros(2, 3))
    with pytest.raises(ShapeError, match=r"scores must be \(..., m, n\); got \(3,\)"):
        Matching().nearest(torch.zeros(3))
    with pytest.raises(DtypeError, match=r"scores must be float"):
        Matching().best(torch.zeros(3, 3, dtype=torch.int64))
    with pytest.raises(TypeError, match="scores must be a tensor; got list"):
        Tree().solve([[1.0]])
    with pytest.raises(TypeError):
        Structure()


def test_larger_ones_are_optimal_by_their_own_gap():
    """max (θ − μ)ᵀ(a − μ) by the oracle; ‖μ − μ*‖² is at most that."""
    for structure, shape in ((Matching(), (15, 20)), (Tree(), (25, 25)), (AtMostTwo(), (300,))):
        for scale in (0.3, 3.0):
            theta = scores(shape, 0, scale, batch=(2,))
            s = structure.solve(theta)
            a = structure.best(theta - s.marginals)
            axes = tuple(range(1, theta.dim()))
            gap = ((theta - s.marginals) * (a - s.marginals)).sum(axes)
            assert gap.max() < 1e-10 and (s.gap < 1e-10).all()
            torch.testing.assert_close(written_out(s), s.marginals, rtol=0, atol=1e-10)
