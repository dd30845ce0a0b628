"""SparseMAP of a chain: the definition, the active set, long rows by their gap, learned transitions."""

import math
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev, vmap

import reference
import regard
from regard.core.errors import ShapeError
from regard.kernels.sparsemap.sparsemap_operator import solve_chain
from regard.maps.fusedmax import fusedmax
from regard.maps.sparsemap_chain import SparseMapChain, sparsemap_chain
from regard.structures.chain import Chain

INF, NAN = math.inf, math.nan
score = st.floats(-3, 3, width=32) | st.integers(-2, 2).map(float)
four = st.lists(score, min_size=4, max_size=4).map(lambda t: [t[:2], t[2:]])
ATTRACT = torch.tensor([[0.3, -0.2], [0.4, 0.9]], dtype=torch.float64)
REPEL = torch.tensor([[-0.4, 0.5], [0.1, -0.8]], dtype=torch.float64)
NEITHER = torch.tensor([[0.3, 0.1], [-0.5, -0.7]], dtype=torch.float64)
KINDS = {"attract": ATTRACT, "repel": REPEL, "neither": NEITHER, "strong": 20 * ATTRACT, "wild": 20 * REPEL}
every_kind = pytest.mark.parametrize("kind", KINDS)


def rows(n, dtype=torch.float64):
    """Rows of every kind: noise of three scales, ties, smooth, sorted, constant."""
    g = torch.Generator().manual_seed(n)
    noise = torch.randn(n, generator=g, dtype=torch.float64)
    t = torch.linspace(-1, 2, n, dtype=torch.float64)
    return torch.stack(
        [noise / 5, noise, 9 * noise, noise.round(), t, (9 * t).sin(), noise.sort().values, 0 * t]
    ).to(dtype)


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
@pytest.mark.parametrize("n", [1, 30, 700])
def test_long_rows_leave_no_gap(kind, n):
    solution = Chain(KINDS[kind]).solve(rows(n))
    assert solution.gap.abs().max() < 1e-8
    assert (solution.marginals >= 0).all()
    assert (solution.marginals <= 1).all()


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
    scores = torch.randn(200, 50, generator=torch.Generator().manual_seed(0))
    assert (regard.maps.chain(scores) > 0).all()
    assert (sparsemap_chain(scores) == 0).double().mean() >= 0.3
    ten = torch.randn(50, 10, generator=torch.Generator().manual_seed(1))
    assert (regard.maps.chain(ten) > 0).all()
    assert (sparsemap_chain(ten) == 0).double().mean() >= 0.3


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


@every_kind
@pytest.mark.parametrize("n", [6, 200])
def test_padding_anywhere_changes_nothing(kind, n):
    torch.manual_seed(n)
    scores = torch.randn(8, n, dtype=torch.float64, requires_grad=True)
    T, g = KINDS[kind].clone().requires_grad_(), torch.randn(8, n, dtype=torch.float64)
    at = torch.rand(8, n + 7).argsort(-1)[:, :n].sort(-1).values  # the keys keep their order
    wide = torch.full((8, n + 7), -INF, dtype=torch.float64).scatter(-1, at, scores)
    weights = sparsemap_chain(wide, T)
    assert weights.gather(-1, at).equal(sparsemap_chain(scores, T))
    want = torch.autograd.grad(sparsemap_chain(scores, T), (scores, T), g)
    for create_graph in (False, True):  # by the kernel, by the formula
        got = torch.autograd.grad(
            weights.gather(-1, at), (scores, T), g, retain_graph=True, create_graph=create_graph
        )
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("kind", ["attract", "repel"])
def test_derivatives(kind):
    torch.manual_seed(0)
    scores = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    hidden = torch.rand(4, 7) < 0.2
    hidden[3] = True
    T = KINDS[kind].clone().requires_grad_()
    each = (T + torch.randn(4, 2, 2, dtype=torch.float64) / 9).detach().requires_grad_()

    def map(x, T):
        return sparsemap_chain(x.masked_fill(hidden, -INF), T)

    for transitions in (T, each):
        inputs = (scores, transitions)
        weights = map(*inputs)
        assert ((weights > 0) & (weights < 1)).any()
        assert gradcheck(map, inputs, check_forward_ad=True)
        assert gradgradcheck(map, inputs, check_fwd_over_rev=True)
    assert gradcheck(lambda x: map(x, 0.5), scores)
    assert gradcheck(lambda T: map(scores.detach(), T), T, check_forward_ad=True)


def test_transforms_and_the_compiler():
    torch.manual_seed(0)
    scores = torch.randn(4, 6, dtype=torch.float64)
    scores[1, 2] = scores[2, 0] = -INF
    T = torch.stack([ATTRACT, REPEL, 2 * REPEL, ATTRACT / 2])
    want = torch.stack([sparsemap_chain(x, t) for x, t in zip(scores, T, strict=True)])
    torch.testing.assert_close(sparsemap_chain(scores, T), want)
    torch.testing.assert_close(vmap(sparsemap_chain)(scores, T), want)
    torch.testing.assert_close(
        vmap(sparsemap_chain, in_dims=(1, None))(scores.T, REPEL), sparsemap_chain(scores, REPEL)
    )
    torch.testing.assert_close(
        vmap(sparsemap_chain, in_dims=(None, 0))(scores[0], T), sparsemap_chain(scores[:1].expand(4, 6), T)
    )
    jacobians = [
        torch.autograd.functional.jacobian(sparsemap_chain, (x, t)) for x, t in zip(scores, T, strict=True)
    ]
    for transform in (jacrev, jacfwd):
        got = vmap(transform(sparsemap_chain, argnums=(0, 1)))(scores, T)
        for argument in (0, 1):
            torch.testing.assert_close(got[argument], torch.stack([j[argument] for j in jacobians]))
    assert (vmap(jacrev(jacrev(sparsemap_chain)))(scores, T) == 0).all()
    with pytest.raises(NotImplementedError, match="no forward-mode derivative of a forward-mode derivative"):
        jacfwd(jacfwd(lambda x: sparsemap_chain(x * x)))(torch.randn(5))
    scores.requires_grad_()
    T.requires_grad_()
    compiled = torch.compile(sparsemap_chain, fullgraph=True, backend="aot_eager")
    for transitions in (T, T.detach()):
        weights = compiled(scores, transitions)
        torch.testing.assert_close(weights, want)
        got, expected = (
            torch.autograd.grad(w.square().sum(), (scores, T), allow_unused=True)
            for w in (weights, sparsemap_chain(scores, transitions))
        )
        torch.testing.assert_close(got, expected)


def test_long_rows_and_meta_tensors():
    scores = torch.randn(2, 70_000, generator=torch.Generator().manual_seed(0))
    weights = sparsemap_chain(scores)
    torch.testing.assert_close(weights, sparsemap_chain(scores.double()).float(), rtol=0, atol=1e-6)
    assert (
        sparsemap_chain(torch.empty(4, 5, device="meta"), torch.eye(2, device="meta")).device.type == "meta"
    )


def test_the_other_state_is_the_chain_with_the_names_exchanged():
    scores = rows(9)
    flipped = torch.tensor([[ATTRACT[1, 1], ATTRACT[1, 0]], [ATTRACT[0, 1], ATTRACT[0, 0]]])
    assert sparsemap_chain(scores, ATTRACT, state=0).equal(sparsemap_chain(-scores, flipped))
    assert sparsemap_chain(scores, ATTRACT, state=1).equal(sparsemap_chain(scores, ATTRACT))


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


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_level_sets_make_the_marginals(kind, dtype):
    scores, T = rows(40, dtype), KINDS[kind].to(dtype)
    scores[:3, ::3] = -INF
    solution = Chain(T).solve(scores)
    made = (solution.weights.unsqueeze(-1) * solution.structures).sum(-2)
    torch.testing.assert_close(
        made, solution.marginals, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-11
    )
    assert solution.marginals.equal(sparsemap_chain(scores, T))
    assert ((solution.structures == 0) | (solution.structures == 1)).all()
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


def test_the_module_keeps_transitions_for_each_head():
    map = SparseMapChain(heads=2, transitions=torch.stack([ATTRACT, REPEL]).float())
    scores = torch.randn(3, 2, 4, 7)
    weights = map(scores)
    torch.testing.assert_close(weights[:, 1], sparsemap_chain(scores[:, 1], REPEL.float()))
    weights.sum().backward()
    assert map.transitions.grad.shape == (2, 2, 2)
    assert regard.maps.facts_of(map) is regard.MAPS["sparsemap_chain"]
    again = SparseMapChain(heads=2)
    again.load_state_dict(map.state_dict())
    assert again(scores).equal(weights)
    assert not list(SparseMapChain(learn=False).parameters())
    with pytest.raises(ShapeError, match=r"scores must be \(..., heads, m, n\) with heads=2"):
        map(torch.randn(3, 5, 4, 7))
    assert SparseMapChain(3, state=0)(torch.randn(4, 6, 3)).shape == (4, 6)


def test_inside_attention():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 8), torch.randn(2, 6, 8), torch.randn(2, 6, 4)
    mask = regard.masks.Lengths(torch.tensor([6, 4]))
    seen = regard.attend(q, k, v, map="sparsemap_chain", mask=mask)
    torch.testing.assert_close(seen.context, seen.weights @ v)
    assert (seen.weights[1, :, 4:] == 0).all()
    torch.testing.assert_close(seen.weights[1, :, :4], sparsemap_chain(seen.scores[1, :, :4]))
    heads = regard.MultiHead(8, heads=2, map=SparseMapChain(heads=2))
    with regard.record(heads) as looked:
        context = heads(q, k, k).context
    (layer,) = looked.values()
    assert layer[0].weights.shape == (2, 2, 3, 6)
    context.sum().backward()
    assert heads.map.transitions.grad.abs().sum() > 0
    with regard.intervene(heads, lambda p: 0 * p):
        assert not heads(q, k, k).context.allclose(context)


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
