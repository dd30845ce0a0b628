"""SparseMAP of a chain: the definition, the active set, long rows by their gap, learned transitions."""

import math
from functools import partial

import pytest
import torch
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev, vmap

import regard
from maps.map_settings import ATTRACT, REPEL
from regard.core.errors import ShapeError
from regard.kernels.sparsemap.sparsemap_operator import solve_chain
from regard.maps.fusedmax import fusedmax
from regard.maps.sparsemap_chain import SparseMapChain, sparsemap_chain
from regard.structures.chain_structure import Chain
from structures.binary_chains import KINDS, rows

INF, NAN = math.inf, math.nan
score = st.floats(-3, 3, width=32) | st.integers(-2, 2).map(float)
four = st.lists(score, min_size=4, max_size=4).map(lambda t: [t[:2], t[2:]])
every_kind = pytest.mark.parametrize("kind", KINDS)


def by_active_set(scores, transitions):
    """The same by the generic solver: with two states ½‖μ‖² is μ² − μ + ½, so everything is doubled."""
    two = torch.stack([torch.where(scores == -INF, scores, 0), 2 * scores - 1], -1)
    return solve_chain(two, 2 * transitions)[..., 1]


@every_kind
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_agrees_with_the_active_set(kind, n):
    scores, T = rows(n), KINDS[kind]
    scores[:3, 1::4] = -INF
    torch.testing.assert_close(sparsemap_chain(scores, T), by_active_set(scores, T), rtol=0, atol=1e-7)


@every_kind
def test_gradients_agree_with_the_active_set(kind):
    scores = rows(12)[:3].requires_grad_()
    T = KINDS[kind].clone().requires_grad_()
    g = torch.randn(3, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    got = torch.autograd.grad(sparsemap_chain(scores, T), (scores, T), g)
    want = torch.autograd.grad(by_active_set(scores, T), (scores, T), g)
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=1e-7)
    if kind != "neither":  # there the derivative jumps
        torch.testing.assert_close(got[1], want[1], rtol=0, atol=1e-7)


def test_marginals_are_often_exactly_0():
    """Claim C40: the marginals of a chain are never 0; of its SparseMAP 30 % and more are."""
    for shape in ((200, 50), (50, 10)):
        scores = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        assert (regard.maps.chain(scores) > 0).all()
        assert (sparsemap_chain(scores) == 0).double().mean() >= 0.3


def test_without_transitions_it_is_a_clip():
    scores = torch.randn(20, 9)
    assert sparsemap_chain(scores, 0.0).equal(scores.clamp(0, 1))
    torch.testing.assert_close(sparsemap_chain(scores, 0.7 * torch.ones(2, 2)), scores.clamp(0, 1))


def test_where_weights_are_inside_the_box_it_is_fusedmax():
    """λ is ½t = t for T = tI; a shift that puts no key at 1 and all sums at 1 finds the simplex."""
    scores = torch.randn(1, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64) / 4
    want = fusedmax(scores, 0.1)
    low, high = scores.min() - 1, scores.max() + 1
    for _ in range(100):
        shift = (low + high) / 2
        much = sparsemap_chain(scores - shift, 0.1).sum() > 1
        low, high = torch.where(much, shift, low), torch.where(much, high, shift)
    torch.testing.assert_close(sparsemap_chain(scores - high, 0.1), want, rtol=0, atol=1e-9)


def test_strong_transitions_decide_for_all_keys():
    scores = torch.randn(30, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    together = sparsemap_chain(scores, 1e3)
    torch.testing.assert_close(together, scores.mean(-1, keepdim=True).clamp(0, 1).expand(30, 12))
    apart = sparsemap_chain(scores, -1e3)
    torch.testing.assert_close(apart[:, ::2] + apart[:, 1::2], torch.ones(30, 6, dtype=torch.float64))


def test_scores_of_any_size():
    for huge in (1e4, 1e30, 3e38):
        weights = sparsemap_chain(torch.tensor([0.5, huge, -huge, 0.25, huge, 2.0]), 0.125)
        assert weights.tolist() == [0.625, 1, 0, 0.25, 1, 1]


def test_very_long_rows():
    scores = torch.randn(2, 70_000, generator=torch.Generator().manual_seed(0))
    weights = sparsemap_chain(scores)
    torch.testing.assert_close(weights, sparsemap_chain(scores.double()).float(), rtol=0, atol=1e-6)


def test_every_row_has_its_own_transitions():
    torch.manual_seed(0)
    scores = torch.randn(4, 6, dtype=torch.float64)
    scores[1, 2] = scores[2, 0] = scores[3] = -INF
    T = torch.stack([ATTRACT, REPEL, 2 * REPEL, ATTRACT / 2])
    want = torch.stack([sparsemap_chain(x, t) for x, t in zip(scores, T, strict=True)])
    torch.testing.assert_close(sparsemap_chain(scores, T), want)
    torch.testing.assert_close(vmap(sparsemap_chain)(scores, T), want)
    torch.testing.assert_close(
        vmap(sparsemap_chain, in_dims=(None, 0))(scores[0], T), sparsemap_chain(scores[:1].expand(4, 6), T)
    )
    each = [torch.autograd.functional.jacobian(sparsemap_chain, xt) for xt in zip(scores, T, strict=True)]
    for transform in (jacrev, jacfwd):
        got = vmap(transform(sparsemap_chain, argnums=(0, 1)))(scores, T)
        torch.testing.assert_close(got, tuple(torch.stack(j) for j in zip(*each, strict=True)))
    assert (got[1][3] == 0).all()  # of a row of nothing
    T.requires_grad_()
    assert gradcheck(partial(sparsemap_chain, scores), T, check_forward_ad=True)
    assert gradgradcheck(partial(sparsemap_chain, scores), T, check_fwd_over_rev=True)
    flawed = torch.randn(2, 7).masked_fill(torch.eye(2, 7) > 0, NAN)
    flawed[1] = 0.5
    T = torch.eye(2).expand(2, 2, 2).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(sparsemap_chain(flawed, T).sum(), T)
    assert gradient[0].isnan().all() and gradient[1].isfinite().all()
    assert sparsemap_chain(torch.zeros(3), torch.full((2, 2), NAN)).isnan().all()


def test_the_other_state_is_the_chain_with_the_names_exchanged():
    scores = rows(9)
    flipped = torch.tensor([[ATTRACT[1, 1], ATTRACT[1, 0]], [ATTRACT[0, 1], ATTRACT[0, 0]]])
    assert sparsemap_chain(scores, ATTRACT, state=0).equal(sparsemap_chain(-scores, flipped))
    assert sparsemap_chain(scores, ATTRACT, state=1).equal(sparsemap_chain(scores, ATTRACT))


def test_transitions_are_learned():
    """From weights made by other transitions, those come back up to what weights can tell."""
    torch.manual_seed(0)
    scores = torch.randn(64, 20)
    want = sparsemap_chain(scores, torch.tensor([[0.5, 0.0], [0.1, 0.8]]))
    map = SparseMapChain()
    optimizer = torch.optim.Adam(map.parameters(), lr=0.02)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (map(scores) - want).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 100


def test_bad_input_is_refused_by_name():
    with pytest.raises(
        ShapeError, match=r"transitions must be \(..., 2, 2\) for a binary chain; got \(3, 3\)"
    ):
        sparsemap_chain(torch.zeros(4), torch.eye(3))
    with pytest.raises(ShapeError, match=r"transitions must broadcast to one \(2, 2\) per row"):
        sparsemap_chain(torch.zeros(4, 5), torch.zeros(3, 2, 2))
    with pytest.raises(ShapeError, match=r"transitions must be \(..., 3, 3\) for states=3; got \(2, 2\)"):
        Chain(torch.eye(2), states=3).best(torch.zeros(4, 3))
    with pytest.raises(ShapeError, match=r"scores must be \(..., n, s\) with s=3; got \(4, 2\)"):
        sparsemap_chain(torch.zeros(4, 2), states=3)
    with pytest.raises(ValueError, match="state must be one of the 2 states"):
        sparsemap_chain(torch.zeros(4), state=2)
    with pytest.raises(ValueError, match="states must be at least 1"):
        Chain(states=0)
    for bad in (INF, -INF):
        with pytest.raises(
            ValueError, match="transitions must be finite for a binary chain.*Use −1000 to forbid"
        ):
            sparsemap_chain(torch.zeros(4), torch.tensor([[0.0, 0.0], [0.0, bad]]))
