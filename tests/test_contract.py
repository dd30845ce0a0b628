"""The contract of every attention, for every score × map × mask × dtype."""

from functools import partial

import pytest
import torch
from torch.func import hessian, jacfwd, jacrev, vmap

import regard
from regard import MAPS, SCORES, Attention, attend
from regard.masks import Causal, Lengths, Window

M, N, D, D_V = 3, 5, 4, 2
ROWS = [name for name, entry in MAPS.items() if entry.acts_on == "row" and not entry.stochastic]
SMOOTH = [name for name in ROWS if MAPS[name].differentiable]
every_score = pytest.mark.parametrize("score", SCORES)
every_map = pytest.mark.parametrize("map", ROWS)
smooth_map = pytest.mark.parametrize("map", SMOOTH)
MASKS = {
    "nothing": lambda: None,
    "causal": Causal,
    "lengths": lambda: Lengths(torch.tensor([5, 0])),  # the second sequence is all padding
    "window": lambda: Window(1),
    "joined": lambda: Causal() & Lengths(torch.tensor([4, 2])),
    "given": lambda: torch.tensor(
        [[1, 0, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0]]
    ).bool(),  # one row of nothing
    "each": lambda: torch.tensor([[1, 1, 0, 0, 1], [1, 0, 0, 0, 0]]).bool()[:, None],  # (b, 1, n): keys alone
}
every_mask = pytest.mark.parametrize("mask", MASKS)
every_dtype = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)


def made(score, dtype=torch.float64):
    torch.manual_seed(1)
    return SCORES[score].make(D, D).to(dtype)


def inputs(dtype=torch.float64, grad=False, seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = [(2, M, D), (2, N, D), (2, N, D_V)]
    return [torch.randn(s, generator=g, dtype=torch.float64).to(dtype).requires_grad_(grad) for s in shapes]


def allowed(mask, m=M, n=N):
    """The mask written out: (2, m, n)."""
    mask = MASKS[mask]()
    if mask is None:
        return torch.ones(2, m, n, dtype=torch.bool)
    return regard.masks.as_mask(mask).rows(0, m, m, n, 1, torch.device("cpu")).expand(2, m, n)


@every_dtype
@every_mask
@every_map
@every_score
def test_three_steps_under_the_mask(score, map, mask, dtype):
    q, k, v = inputs(dtype)
    seen = attend(q, k, v, score=made(score, dtype), map=map, mask=MASKS[mask]())
    visible = allowed(mask)
    assert seen.context.dtype == seen.weights.dtype == seen.scores.dtype == dtype
    assert seen.context.shape == (2, M, D_V)
    assert seen.weights.shape == (2, M, N)
    assert (seen.weights[~visible] == 0).all()
    assert (seen.context[~visible.any(-1)] == 0).all()
    tol = dict(rtol=1e-9, atol=1e-9) if dtype == torch.float64 else dict(rtol=2e-2, atol=2e-2)
    want = torch.zeros(2, M, N, dtype=torch.float64)
    for b in range(2):
        for i in range(M):
            if visible[b, i].any():  # each row alone, its hidden keys taken out
                want[b, i, visible[b, i]] = MAPS[map](seen.scores[b, i, visible[b, i]].double())
    torch.testing.assert_close(seen.weights.double(), want, **tol)
    torch.testing.assert_close(seen.context.double(), want @ v.double(), **tol)


@every_mask
@every_map
@every_score
def test_what_nobody_may_look_at_can_hold_anything(score, map, mask):
    visible = allowed(mask)
    score = made(score)
    answers = []
    for filling in (0.0, float("nan"), float("inf"), 1e30):
        q, k, v = inputs(grad=True)
        hidden, blind = ~visible.any(-2), ~visible.any(-1)
        with torch.no_grad():
            k[hidden], v[hidden], q[blind] = filling, filling, filling
        score.zero_grad()
        context = attend(q, k, v, score=score, map=map, mask=MASKS[mask]()).context
        context.square().sum().backward()
        grads = [q.grad, k.grad, v.grad, *(p.grad for p in score.parameters())]
        grads = [g for g in grads if g is not None]
        assert all(g.isfinite().all() for g in grads)
        assert (k.grad is None or (k.grad[hidden] == 0).all()) and (v.grad[hidden] == 0).all()
        answers.append([context, *grads])
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            assert torch.equal(a, b)


@every_mask
@every_map
@every_score
def test_finite_values_never_leak_where_only_some_may_look(score, map, mask):
    visible, score = allowed(mask), made(score)
    q, k, v = inputs()
    before = attend(q, k, v, score=score, map=map, mask=MASKS[mask]()).context
    for j in range(N):
        k2, v2 = k.clone(), v.clone()
        k2[:, j], v2[:, j] = 7.0, -7.0
        after = attend(q, k2, v2, score=score, map=map, mask=MASKS[mask]()).context
        assert torch.equal(after[~visible[..., j]], before[~visible[..., j]])


@pytest.mark.parametrize("mask", ["nothing", "joined", "given"])
@smooth_map
@every_score
def test_first_and_second_gradients(score, map, mask):
    score, mask = made(score), MASKS[mask]()
    q, k, v = (t[:, :3].detach().requires_grad_() for t in inputs(grad=True, seed=3))
    mask = mask[:, :3] if isinstance(mask, torch.Tensor) else mask

    def f(q, k, v):
        return attend(q, k, v, score=score, map=map, mask=mask).context

    assert torch.autograd.gradcheck(f, (q, k, v))
    assert torch.autograd.gradgradcheck(f, (q, k, v), atol=1e-4)


@smooth_map
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_torch_func_sees_what_autograd_sees(score, map):
    score = made(score)
    q, k, v = inputs()

    def f(q):
        return attend(q, k[0], v[0], score=score, map=map, mask=Causal()).context

    want = torch.stack([torch.autograd.functional.jacobian(f, one) for one in q])
    torch.testing.assert_close(vmap(jacrev(f))(q), want)
    torch.testing.assert_close(jacfwd(f)(q[0]), want[0])
    second = torch.autograd.functional.hessian(lambda x: f(x).square().sum(), q[0])
    torch.testing.assert_close(jacrev(jacrev(lambda x: f(x).square().sum()))(q[0]), second)
    torch.testing.assert_close(hessian(lambda x: f(x).square().sum())(q[0]), second)


@every_map
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_compiles_without_a_graph_break(score, map):
    torch._dynamo.reset()
    attention = Attention(made(score), map)
    q, k, v = inputs(grad=True)
    mask = Causal() & Lengths(torch.tensor([4, 2]))
    compiled = torch.compile(
        lambda q, k, v: attention(q, k, v, mask=mask).context, fullgraph=True, backend="aot_eager"
    )
    out, want = compiled(q, k, v), attention(q, k, v, mask=mask).context
    torch.testing.assert_close(out, want)
    if out.requires_grad:
        got = torch.autograd.grad(out.square().sum(), (q, k, v), allow_unused=True)
        torch.testing.assert_close(
            got, torch.autograd.grad(want.square().sum(), (q, k, v), allow_unused=True)
        )


@every_map
def test_empty_sequences(map):
    seen = attend(torch.randn(2, 3, D), torch.randn(2, 0, D), map=map)
    assert seen.context.tolist() == torch.zeros(2, 3, D).tolist()  # nothing to look at: 0, as under a mask
    assert seen.weights.shape == (2, 3, 0)
    seen = attend(torch.randn(2, 0, D), torch.randn(2, 5, D), map=map)
    assert seen.context.shape == (2, 0, D)
    assert seen.weights.shape == (2, 0, 5)
    none = torch.ones(2, 0, 5, dtype=torch.bool)
    assert attend(torch.randn(2, 0, D), torch.randn(2, 5, D), map=map, mask=none).context.shape == (2, 0, D)
    assert attend(torch.randn(0, 3, D), torch.randn(0, 5, D), map=map, mask=Causal()).context.shape == (
        0,
        3,
        D,
    )


@every_map
def test_a_visible_nan_is_shown_not_hidden(map):
    q, k, v = inputs()
    k[0, 1] = float("nan")
    seen = attend(q, k, v, map=map)
    assert seen.weights[0].isnan().any(-1).all()
    assert seen.context[0].isnan().all()
    assert seen.context[1].isfinite().all()


def test_settings_of_a_map_come_with_partial_or_a_module():
    q, k, v = inputs()
    sharp = attend(q, k, v, map=partial(regard.maps.softmax, temperature=0.5))
    torch.testing.assert_close(sharp.weights, (sharp.scores / 0.5).softmax(-1))
    learned = attend(q, k, v, map=regard.maps.Entmax(learn_alpha=True))
    torch.testing.assert_close(learned.weights.sum(-1), torch.ones(2, M, dtype=torch.float64))
    assert torch.equal(
        attend(q, k, v, map=MAPS["sparsemax"]).weights, attend(q, k, v, map="sparsemax").weights
    )


def test_a_users_own_map_is_masked_too():
    q, k, v = inputs()
    weird = attend(q, k, v, map=lambda s: s.exp() / s.exp().sum(-1, keepdim=True), mask=MASKS["given"]())
    torch.testing.assert_close(weird.weights, attend(q, k, v, mask=MASKS["given"]()).weights)


def test_autocast_does_not_round_the_inside():
    q, k, v = inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        seen = attend(q, k.bfloat16(), v, map="sparsemax")
        torch.testing.assert_close(seen.weights, attend(q, k.bfloat16().float(), v, map="sparsemax").weights)
    assert seen.context.dtype == torch.float32


def test_weights_can_be_looked_at_inside_what_is_compiled():
    torch._dynamo.reset()
    q, k, v = inputs(grad=True)
    compiled = torch.compile(lambda q: attend(q, k, v, mask=Causal()).weights, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q), attend(q, k, v, mask=Causal()).weights)
