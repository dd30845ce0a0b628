"""Chain attention: against all assignments, in scores of every size, with given and learned transitions."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev, vmap

import reference
import regard
from maps.all_assignments import enumerated, marginals, two_states
from regard import MAPS, attend
from regard.core.errors import DeviceError, DtypeError, ShapeError
from regard.maps import Chain, SparseMapChain, chain, sigmoid, sparsemap_chain
from regard.scores.score import Score

INF, NAN = float("inf"), float("nan")
f64 = torch.float64
both_chains = pytest.mark.parametrize(
    ("module", "function"), [(Chain, chain), (SparseMapChain, sparsemap_chain)], ids=["chain", "sparsemap"]
)


def random(*shape, seed=0, scale=1.0, dtype=f64):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def hidden_some(scores, seed=0, share=0.3):
    """Hide some keys of (..., n), and all of the first row."""
    hidden = torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed)) < share
    hidden[0] = True
    return scores.masked_fill(hidden, -INF)


numbers = st.floats(-5, 5) | st.floats(-60, 60)


@given(
    theta=st.lists(numbers | st.just(-INF), min_size=1, max_size=6),
    transitions=st.lists(numbers, min_size=4, max_size=4),
)
def test_binary_chains_agree_with_all_assignments(theta, transitions):
    theta, T = torch.tensor(theta, dtype=f64), torch.tensor(transitions, dtype=f64).view(2, 2)
    want = marginals(two_states(theta), T)
    torch.testing.assert_close(chain(theta, T), want[:, 1], rtol=0, atol=1e-9)
    torch.testing.assert_close(chain(theta, T, state=0), want[:, 0], rtol=0, atol=1e-9)
    torch.testing.assert_close(chain(theta.float(), T.float()).double(), want[:, 1], rtol=0, atol=2e-5)


@given(data=st.data(), s=st.integers(1, 3), n=st.integers(1, 5))
def test_chains_of_more_states_agree_with_all_assignments(data, s, n):
    some = numbers | st.just(-INF)
    theta = torch.tensor(data.draw(st.lists(some, min_size=n * s, max_size=n * s)), dtype=f64).view(n, s)
    T = torch.tensor(data.draw(st.lists(some, min_size=s * s, max_size=s * s)), dtype=f64).view(s, s)
    if enumerated(theta, T)[3] == -INF:
        with pytest.raises(
            ValueError, match="transitions must leave a path through every row; row 0 has none"
        ):
            chain(theta, T, states=s)
        return
    want = marginals(theta, T)
    for state in range(s):
        torch.testing.assert_close(chain(theta, T, states=s, state=state), want[:, state], rtol=0, atol=1e-9)
    assert torch.equal(chain(theta, T, states=s), chain(theta, T, states=s, state=s - 1))


@pytest.mark.parametrize("n", range(1, 11))
def test_claim_c40_forward_backward_is_brute_force_and_never_0(n):
    for k, scale in enumerate([0.1, 1, 5]):
        theta = random(n, seed=k, scale=scale)
        p = chain(theta, 1.0)
        assert p.tolist() == pytest.approx(reference.chain(theta.tolist(), 1.0), abs=1e-9)
        assert (p > 0).all()


@pytest.mark.parametrize("scale", [1e-3, 1, 50, 300, 1e4, 1e30])
@pytest.mark.parametrize("stay", [-3.0, 1.0, 30.0])
def test_from_flat_to_steep(scale, stay):
    theta, T = random(12, 7, scale=scale), stay * torch.eye(2, dtype=f64)
    want = torch.stack([marginals(two_states(row), T)[:, 1] for row in theta])
    torch.testing.assert_close(chain(theta, stay), want, rtol=0, atol=1e-9)
    torch.testing.assert_close(chain(two_states(theta), T, states=2), want, rtol=0, atol=1e-9)
    theta = theta.float().double()
    want = torch.stack([marginals(two_states(row), T)[:, 1] for row in theta])
    torch.testing.assert_close(chain(theta.float(), stay).double(), want, rtol=0, atol=1e-6)


def test_it_is_the_sigmoid_without_transitions_and_far_from_it_by_default():
    theta = random(50, 9)
    torch.testing.assert_close(chain(theta, 0.0), sigmoid(theta))
    torch.testing.assert_close(chain(theta, torch.full((2, 2), -3.0, dtype=f64)), sigmoid(theta))
    assert (chain(theta) - sigmoid(theta)).abs().mean() > 0.05
    lone = torch.tensor([[3.0, 3, -3, 3, 3], [-3, -3, 3, -3, -3]])
    assert chain(lone, 3.0)[0, 2] > 0.8 and chain(lone, 3.0)[1, 2] < 0.2  # as its neighbours are
    assert chain(lone, -9.0)[0].round().tolist() == [0, 1, 0, 1, 0]  # as its neighbours are not


def test_what_underflows_on_the_way_can_come_back():
    """All 0 or all 1, of equal score, though after the first key the odds are e^1000."""
    theta = torch.tensor([1000.0, -1000], dtype=f64)
    torch.testing.assert_close(chain(theta, 5000.0), torch.full((2,), 0.5, dtype=f64))
    T = torch.tensor([[0.0, -1], [-INF, 0]], dtype=f64)  # once 1, always 1
    theta = torch.tensor([800.0, 800, -800, -800 - 0.5], dtype=f64)
    torch.testing.assert_close(chain(theta, T), marginals(two_states(theta), T)[:, 1])


@pytest.mark.parametrize(
    "T", [torch.eye(2), torch.tensor([[0.3, -1], [2, -50]]), torch.tensor([[0, -INF], [1, 2]])]
)
def test_hidden_keys_close_up(T):
    scores = hidden_some(random(30, 9, seed=4))
    p = chain(scores, T.double())
    for row, weights in zip(scores, p, strict=True):
        seen = row > -INF
        assert (weights[~seen] == 0).all()
        torch.testing.assert_close(weights[seen], chain(row[seen], T.double()), rtol=0, atol=1e-14)
    more = two_states(scores) + 0.3
    torch.testing.assert_close(chain(more, T.double(), states=2), p)


def test_a_state_can_be_forbidden_at_a_key():
    theta = random(6, 3)
    theta[2, 1] = theta[4, 2] = theta[4, 0] = -INF
    T = random(3, 3, seed=1)
    theta.requires_grad_()
    full = torch.stack([chain(theta, T, states=3, state=a) for a in range(3)], -1)
    torch.testing.assert_close(full, marginals(theta, T))
    assert full[4].tolist() == [0, 1, 0]
    (gradient,) = grad(full.square().sum(), theta)
    assert (gradient[theta == -INF] == 0).all() and gradient.isfinite().all()


CASES = {  # the walk has binary chains that share their transitions
    "binary, hidden keys": (lambda: hidden_some(random(4, 5)), lambda: random(2, 2, seed=1), {}),
    "state 0": (lambda: hidden_some(random(4, 5)), lambda: random(2, 2, seed=1), {"state": 0}),
    "heads": (lambda: random(2, 3, 2, 4), lambda: random(3, 1, 2, 2, seed=1), {}),
    "each row its own": (lambda: random(3, 4), lambda: random(3, 2, 2, seed=1), {}),
    "steep": (
        lambda: random(3, 5),
        lambda: random(2, 2, seed=1) * 0.5 + torch.tensor([[0, 45], [45, 0]]),
        {},
    ),
    "states": (lambda: random(2, 4, 3), lambda: random(3, 3, seed=1), {"states": 3}),
    "states, hidden keys": (
        lambda: hidden_some(random(3, 4)).unsqueeze(-1) + random(3, seed=2),
        lambda: random(3, 1, 3, 3, seed=1).squeeze(1),
        {"states": 3, "state": 0},
    ),
    "one state": (lambda: random(2, 3, 1), lambda: random(1, 1, seed=1), {"states": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_first_and_second_gradients_in_scores_and_transitions(case):
    scores, T, settings = CASES[case]
    scores, T = scores(), T().requires_grad_()
    visible = scores > -INF
    x = torch.where(visible, scores, 0).requires_grad_()

    def f(x, T):
        return chain(torch.where(visible, x, -INF), T, **settings)

    assert gradcheck(f, (x, T))
    assert gradgradcheck(f, (x, T))
    p = f(x, T)
    by_kernel, by_formula = (grad(p, (x, T), p, retain_graph=True, create_graph=c) for c in (False, True))
    torch.testing.assert_close(by_kernel, by_formula, rtol=0, atol=1e-12)


def test_forbidden_transitions_have_no_gradient():
    T = torch.tensor([[0.5, -INF], [1, 2]], dtype=f64, requires_grad=True)
    x = random(3, 5).requires_grad_()
    for again in (False, True):
        to_x, to_T = grad(chain(x, T).square().sum(), (x, T), create_graph=again)
        assert to_T[0, 1] == 0 and (to_T[T > -INF] != 0).all() and (to_x != 0).all()
    assert gradcheck(lambda x: chain(x, T.detach()), x)
    assert gradgradcheck(lambda x: chain(x, T.detach()), x)


def test_transitions_that_rows_share_get_the_sum_of_their_gradients():
    scores, T = random(2, 3, 4, 5), random(3, 1, 2, 2, seed=1).requires_grad_()
    (shared,) = grad(chain(scores, T).square().sum(), T)
    each = T.detach().expand(2, 3, 4, 2, 2).clone().requires_grad_()
    (one,) = grad(chain(scores, each).square().sum(), each)
    torch.testing.assert_close(shared, one.sum((0, 2)).unsqueeze(1))


def test_transforms():
    scores, T = random(4, 5), random(4, 2, 2, seed=1)
    both = torch.stack([chain(x, t) for x, t in zip(scores, T, strict=True)])
    torch.testing.assert_close(vmap(chain)(scores, T), both)
    torch.testing.assert_close(vmap(chain, (None, 0))(scores[0], T), chain(scores[:1].expand(4, 5), T))
    torch.testing.assert_close(vmap(chain, (0, None))(scores, T[0]), chain(scores, T[0]))
    torch.testing.assert_close(chain(scores, T), both)
    more, T = random(3, 6, 3), random(3, 3, seed=1)
    three = partial(chain, transitions=T, states=3)
    torch.testing.assert_close(vmap(three)(more), three(more))
    torch.testing.assert_close(vmap(jacrev(three))(more)[1], jacfwd(three)(more[1]))


def test_compiles_with_what_it_learns():
    torch._dynamo.reset()
    map, x = Chain(3).double(), random(2, 6, 3).requires_grad_()
    compiled = torch.compile(lambda x: map(x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), map(x))
    got = grad(compiled(x).square().sum(), (x, map.transitions))
    torch.testing.assert_close(got, grad(map(x).square().sum(), (x, map.transitions)))


@pytest.mark.parametrize("stay", [-2.0, 1.0, 20.0])
def test_long_rows(stay):
    """Binary kernel, kernel of many states and prefix products agree where nobody can enumerate."""
    scores, T = random(3, 4096), (stay * torch.eye(2, dtype=f64)).requires_grad_()
    scores[1, ::3] = -INF
    scores.requires_grad_()
    p = chain(scores, T)
    assert p.isfinite().all() and (p >= 0).all() and (p <= 1).all()
    torch.testing.assert_close(chain(two_states(scores), T, states=2), p, rtol=0, atol=1e-9)
    torch.testing.assert_close(chain(scores.float(), T.float()).double(), p, rtol=0, atol=1e-6)
    turned = chain(scores.flip(-1), T.mT).flip(-1)  # backwards, it is the same chain
    torch.testing.assert_close(turned, p, rtol=0, atol=1e-9)
    g = random(*p.shape, seed=1)
    fast = grad(p, (scores, T), g, retain_graph=True)
    slow = grad(p, (scores, T), g, create_graph=True)
    torch.testing.assert_close(fast, slow, rtol=1e-8, atol=1e-8)
    second = grad(slow[0].square().sum(), (scores, T))
    assert all(x.isfinite().all() for x in second)


def test_nothing_n_and_flaws():
    T = torch.eye(2, dtype=f64)
    assert chain(torch.empty(3, 0), 1.0).shape == (3, 0)
    assert chain(torch.empty(3, 0, 4), states=4).shape == (3, 0)
    assert chain(torch.empty(0, 5, 4), states=4).shape == (0, 5)
    assert chain(torch.full((2, 3, 4), -INF), states=4).tolist() == [[0, 0, 0]] * 2
    assert chain(random(1), T).item() == pytest.approx(torch.sigmoid(random(1)).item())
    flawed = torch.tensor([[0.0, 1, -INF], [NAN, 1, -INF], [0, INF, 1]], requires_grad=True)
    for p in (chain(flawed), chain(two_states(flawed), states=2), chain(flawed, 99.0)):
        assert p[0].isfinite().all() and p[1:].isnan().all()
        assert grad(p.sum(), flawed, retain_graph=True)[0].isnan().any(-1).tolist() == [False, True, True]
        assert grad(p.sum(), flawed, create_graph=True)[0].isnan().any(-1).tolist() == [False, True, True]
    for value in (NAN, INF):
        T = torch.tensor([[0, value], [0, 0]], dtype=f64)
        assert chain(random(2, 3), T).isnan().all()
        assert (chain(torch.full((2, 3), -INF), T) == 0).all()
    assert chain(torch.full((2, 3), -INF), torch.tensor([[0, 0], [-INF, 0]])).tolist() == [[0, 0, 0]] * 2


def test_half_precision_is_computed_in_float32():
    T = random(3, 3).float()
    for dtype in (torch.float16, torch.bfloat16):
        scores = random(2, 6, 3, dtype=torch.float32).to(dtype)
        p = chain(scores, T.to(dtype), states=3)
        assert p.dtype == dtype
        assert torch.equal(p, chain(scores.float(), T.to(dtype).float(), states=3).to(dtype))


def test_bad_input_is_named():
    scores = random(2, 3, 5)
    with pytest.raises(
        ShapeError, match=r"transitions must be \(..., 2, 2\) for a binary chain; got \(3, 3\). Use states=3"
    ):
        chain(scores, torch.eye(3))
    with pytest.raises(ShapeError, match=r"transitions must be \(..., 5, 5\) for states=5; got \(2, 2\)"):
        chain(scores, torch.eye(2), states=5)
    with pytest.raises(ShapeError, match=r"transitions must be \(..., 2, 2\).*got \(4,\)"):
        chain(scores, torch.ones(4))
    with pytest.raises(
        ShapeError, match=r"transitions must broadcast to one \(2, 2\) per row.*\(heads, 1, 2, 2\)"
    ):
        chain(scores, torch.ones(4, 2, 2))
    with pytest.raises(ShapeError, match="transitions must broadcast"):
        chain(scores, torch.ones(1, 1, 1, 2, 2))
    with pytest.raises(DtypeError, match="transitions must be float"):
        chain(scores, torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(DeviceError, match="transitions must be on cpu as scores are; got meta"):
        chain(scores, torch.ones(2, 2, device="meta"))
    with pytest.raises(ShapeError, match=r"scores must be \(..., n, s\) with s=4; got \(2, 3, 5\)"):
        chain(scores, states=4)
    with pytest.raises(ValueError, match="states must be at least 1, or None for a binary chain; got 0"):
        chain(scores, states=0)
    with pytest.raises(ValueError, match="state must be one of the 2 states, -2 to 1; got 2"):
        chain(scores, state=2)
    with pytest.raises(ValueError, match="transitions must leave a path through every row; row 0 has none"):
        chain(scores, torch.full((2, 2), -INF))
    with pytest.raises(ShapeError, match=r"transitions must be \(3, 3\) or \(2, 3, 3\); got \(2, 2\)"):
        Chain(3, transitions=torch.eye(2), heads=2)
    with pytest.raises(ValueError, match="heads must be at least 1; got 0"):
        Chain(heads=0)
    with pytest.raises(ValueError, match="state must be one of the 3 states"):
        Chain(3, state=3)


@both_chains
def test_the_module_keeps_what_it_is_given(module, function):
    T = random(2, 3, 3, dtype=torch.float32)
    map = module(3, transitions=T, heads=2, learn=False, state=0)
    assert map.facts is MAPS[function.__name__] and map.states == 3 and not list(map.parameters())
    scores = random(5, 2, 4, 6, 3, dtype=torch.float32)
    assert torch.equal(map(scores), function(scores, T.unsqueeze(1), states=3, state=0))
    again = module(3, heads=2, state=0, learn=False)
    again.load_state_dict(map.state_dict())
    assert torch.equal(again(scores), map(scores))
    assert module().states is None and torch.equal(module().transitions, torch.eye(2).unsqueeze(0))
    assert module(transitions=2.0).transitions.tolist() == [[[2, 0], [0, 2]]]
    assert repr(map) == f"{module.__name__}(states=3, learn=False, heads=2, state=0)"
    assert torch.equal(module()(scores[..., 0]), function(scores[..., 0]))
    with pytest.raises(ShapeError, match=r"scores must be \(..., heads, m, n\) with heads=2"):
        module(heads=2)(random(3, 4, 5))


@both_chains
def test_each_head_learns_its_own_transitions(module, function):
    heads = regard.MultiHead(8, heads=2, map=module(heads=2)).double()
    heads(random(2, 4, 8), random(2, 6, 8, seed=1)).context.square().sum().backward()
    learns = (heads.map.transitions.grad != 0).flatten(1)  # sparse marginals need not feel every one
    assert learns.all() if module is Chain else learns.any(-1).all()


def test_more_states_inside_attention():
    q, k = random(2, 4, 8), random(2, 6, 8, seed=1)
    mask = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0]]).bool().unsqueeze(1)
    W = random(3, 8, 8, seed=2)

    class Stacked(Score):
        def forward(self, query, keys):
            return torch.einsum("bmd,ade,bne->bmna", query, W, keys)

    score = Stacked()
    seen = attend(q, k, score=score, map=Chain(3).double(), mask=mask)
    visible = mask[0, 0]
    want = chain(score(q, k)[0][:, visible], states=3)
    torch.testing.assert_close(seen.weights[0][:, visible], want)
    assert (seen.weights[0][:, ~visible] == 0).all() and (seen.weights[1] == 0).all()


def test_learned_transitions_find_that_keys_come_in_spans():
    """Keys show weakly whether they are in the span; the target is the sum of its values."""
    g = torch.Generator().manual_seed(0)
    place, n = torch.arange(24), 24

    def batch(size=64):
        start = torch.randint(0, n - 8, (size, 1), generator=g)
        inside = (place >= start) & (place < start + 8)  # (b, n)
        shown = torch.where(inside, 1.0, -1.0) + 1.5 * torch.randn(size, n, generator=g)
        values = torch.randn(size, n, 4, generator=g)
        return shown, values, inside.float()

    def trained(map):
        scale = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
        optimizer = torch.optim.Adam([scale, *map.parameters()], lr=0.05)
        for _ in range(150):
            shown, values, inside = batch()
            p = map(scale[0] * shown + scale[1])
            loss = ((p - inside).unsqueeze(-1) * values).sum(1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        shown, _, inside = batch(512)
        return (map(scale[0] * shown + scale[1]) - inside).square().mean().item()

    free, fixed = Chain(transitions=0.0), Chain(transitions=0.0, learn=False)
    assert trained(free) < 0.75 * trained(fixed)
    T = free.transitions[0].detach()
    assert T[0, 0] + T[1, 1] - T[0, 1] - T[1, 0] > 2


@pytest.mark.parametrize("states", [None, 3])
def test_a_jacobian_by_batched_gradients(states):
    torch.manual_seed(0)
    x = torch.randn(5 if states is None else (5, states), dtype=torch.float64)
    one, all = (
        torch.autograd.functional.jacobian(partial(chain, states=states), x, vectorize=way)
        for way in (False, True)
    )
    torch.testing.assert_close(one, all)
