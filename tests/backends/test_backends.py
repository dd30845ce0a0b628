"""Every backend gives the plain context, in values and in gradients, and says when it does not apply."""

from dataclasses import replace

import pytest
import torch

import regard
from regard import MAPS, SCORES
from regard.backends import blocks as block_backend
from regard.backends import dispatch, flash, sparse
from regard.backends.plain import plain
from regard.masks import Causal, Lengths, Window
from regard.positions import Distance, Order, Relative
from regard.scores import Additive, Factored, ScaledDot

M, N, D = 7, 9, 4
ROWS = [name for name, entry in MAPS.items() if entry.acts_on == "row" and not entry.stochastic]
MASKS = {
    "nothing": lambda: None,
    "causal": Causal,
    "lengths": lambda: Lengths(torch.tensor([9, 0])),
    "joined": lambda: Window(2) & Causal() & Lengths(torch.tensor([9, 4])),
    "given": lambda: torch.arange(M * N).reshape(M, N) % 3 > 0,
    "per head": lambda: torch.arange(2 * 3 * M * N).reshape(2, 3, M, N) % 5 > 1,
}
TERMS = {
    "none": lambda: ScaledDot(),
    "relative": lambda: ScaledDot() + Relative(D, 2),
    "distance": lambda: ScaledDot() + Distance(2, heads=3),
    "order inside": lambda: Additive(D, D, terms=[Order()]),
    "given bias": lambda: (
        ScaledDot() + regard.positions.Bias(torch.randn(3, M, N, dtype=torch.float64), learn=True)
    ),
    "convolution": lambda: SCORES["convolution"].make(D, D),
}


def call(score, map, mask, m=M, n=N, dropout=0.0):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, s, D, dtype=torch.float64, requires_grad=True) for s in (m, n, n))
    score = SCORES[score].make(D, D) if isinstance(score, str) else score
    score = score.double()
    for p in score.parameters():
        torch.nn.init.normal_(p)
    return replace(regard.attend(q, k, v, score=score, map=map, mask=mask)._call, dropout=dropout), (q, k, v)


def compare(backend, call, leaves, tol=1e-9):
    leaves = [*leaves, *call.parameters()]
    want, got = plain(call)[0], backend(call)
    torch.testing.assert_close(got, want, rtol=tol, atol=tol)
    if want.requires_grad:
        g = torch.randn_like(want)
        for a, b in zip(
            *(torch.autograd.grad(o, leaves, g, allow_unused=True, retain_graph=True) for o in (want, got)),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=tol, atol=tol)


def in_three(monkeypatch, made):
    """Three blocks, the last one shorter."""
    monkeypatch.setattr(block_backend, "budget", lambda call: block_backend.size(made) // 3)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("map", ROWS)
@pytest.mark.parametrize("terms", TERMS)
def test_the_block_backend(monkeypatch, terms, map, mask):
    made, leaves = call(TERMS[terms](), map, MASKS[mask]())
    in_three(monkeypatch, made)
    compare(block_backend.blocks, made, leaves)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", [name for name in SCORES if SCORES[name].factored])
def test_the_flash_backend(score, mask):
    made, leaves = call(score, "softmax", MASKS[mask]())
    compare(flash.flash, made, leaves)
    square, leaves = call(
        score, "softmax", MASKS[mask]() if mask in ("nothing", "causal", "lengths") else None, m=N
    )
    compare(flash.flash, square, leaves)


def test_the_flash_backend_has_second_derivatives():
    for mask in (None, Causal(), Lengths(torch.tensor([0, 2]))):
        made, leaves = call("scaled_dot", "softmax", mask, m=3, n=3)
        assert torch.autograd.gradgradcheck(
            lambda q, k, v, c=made: flash.flash(replace(c, query=q, keys=k, values=v)), leaves
        )


@pytest.mark.parametrize("map", ["softmax", "entmax15", "sigmoid"])
def test_one_tensor_for_everything_is_counted_once(map):
    x = torch.randn(1, 140, 4, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(regard.attend(x, x, map=map).context.square().sum(), x)
    (again,) = torch.autograd.grad(regard.attend(x, x, map=map).context.square().sum(), x, create_graph=True)
    torch.testing.assert_close(first, again)


def test_each_backend_is_chosen_where_it_applies(monkeypatch):
    taken = []
    for where, name in (
        (flash, "flash"),
        (dispatch, "blocks"),
        (dispatch, "plain"),
        (sparse, "sparse"),
    ):
        real = getattr(where, name)
        monkeypatch.setattr(where, name, lambda c, real=real, name=name: (taken.append(name), real(c))[1])

    def backend(**settings):
        taken.clear()
        n = settings.pop("n", 16)
        q = torch.randn(1, n, 8)
        regard.attend(q, q, **settings)
        return taken[-1]

    assert backend() == "flash"
    assert backend(score=regard.scores.Additive(8, 8)) == "plain"
    assert backend(map="sigmoid") == "plain"
    assert backend(map="sigmoid", n=3000) == "blocks"
    assert backend(map="entmax15", n=512) == "sparse"
    assert backend(map=lambda s: s.softmax(-1)) == "plain"
    assert backend(map=lambda s: s.softmax(-1), n=3000) == "blocks"
    assert backend(mask=Causal() & Lengths(torch.tensor([3000])), n=3000) == "flash"
    assert backend(score=ScaledDot() + Order(), n=3000) == "blocks"


def test_a_map_of_ones_own_says_that_it_looks_at_other_rows_or_draws_numbers(monkeypatch):
    taken = []
    real = dispatch.plain
    monkeypatch.setattr(dispatch, "plain", lambda c: (taken.append("plain"), real(c))[1])
    monkeypatch.setattr(dispatch, "LARGE", 0)
    x = torch.randn(1, 5, 4)

    def columns(scores):
        return scores.softmax(-2)

    columns.acts_on = "matrix"
    want = (x @ x.mT / 2).softmax(-2) @ x
    torch.testing.assert_close(regard.attend(x, x, map=columns).context, want)
    assert taken == ["plain"]

    def noisy(scores):
        return (scores + torch.randn_like(scores)).softmax(-1)

    torch.manual_seed(0)
    seen = regard.attend(x, x, map=noisy)
    torch.manual_seed(0)
    torch.testing.assert_close(seen.weights, noisy(x @ x.mT / 2))  # those of the context, drawn once
    torch.testing.assert_close(seen.weights @ x, seen.context)
    assert taken == ["plain"] * 2

    def quiet(scores):
        return scores.softmax(-1)

    regard.attend(x, x, map=quiet)
    assert taken == ["plain"] * 2
    quiet.stochastic = True
    regard.attend(x, x, map=quiet)
    assert taken == ["plain"] * 3


def test_dropout_on_the_block_backend_is_the_same_again_in_backward(monkeypatch):
    """With values of 1 the context is the weight kept; its gradient must agree with it, draw for draw."""
    made, (q, k, v) = call("scaled_dot", "softmax", None, dropout=0.5)
    in_three(monkeypatch, made)
    context = block_backend.blocks(made)
    (g,) = torch.autograd.grad(context.sum(), v)
    torch.testing.assert_close((g * v).sum(), context.sum())


@pytest.mark.parametrize(
    ("map", "score"), [("sigmoid", "scaled_dot"), ("softmax", "additive"), ("entmax15", "scaled_dot")]
)
def test_memory_grows_linearly(map, score):
    """Peak of all tensors alive during forward and backward, counted by the allocator's own events."""
    from torch.profiler import ProfilerActivity, profile

    def peak(n):
        torch.manual_seed(0)
        made = SCORES[score].make(4, 4)
        q, k = (torch.randn(1, n, 4, requires_grad=True) for _ in range(2))
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            regard.attend(q, k, score=made, map=map, mask=Causal()).context.sum().backward()
        now = most = 0
        for event in seen.profiler.kineto_results.events():
            if event.name() == "[memory]":
                now += event.nbytes()
                most = max(most, now)
        return most

    n = 2200 if score != "additive" else 1100
    peak(n)  # kernels compile
    assert peak(2 * n) < 2.5 * peak(n)  # the plain backend would need four times as much


class Rotary(Factored):
    """θ = (R(i)q)ᵀ(R(j)k), R a rotation by the position."""

    uses_place = True

    def factors(self, query, keys, place):
        return self.turned(query, place.queries), self.turned(keys, place.keys)

    def turned(self, x, positions):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())  # (..., n, d / 2)
        angle = positions.to(x.dtype)[..., None] / 10.0 ** torch.arange(pairs.shape[-1])
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


@pytest.mark.parametrize(
    ("backend", "map"), [("blocks", "sigmoid"), ("flash", "softmax"), ("sparse", "entmax15")]
)
def test_a_score_whose_factors_depend_on_positions(monkeypatch, backend, map):
    made, leaves = call(Rotary(), map, Causal(), m=130, n=140)
    in_three(monkeypatch, made)
    compare(
        {"blocks": block_backend.blocks, "flash": flash.flash, "sparse": sparse.sparse}[backend], made, leaves
    )
    q, k = (
        Rotary().turned(x, at)
        for x, at in zip(leaves, (torch.arange(10, 140), torch.arange(140)), strict=False)
    )
    torch.testing.assert_close(made.scores(None), q @ k.mT)
    torch.testing.assert_close(Rotary()(leaves[0], leaves[1]), q @ k.mT)  # without a place, the last 130


def test_a_map_that_brings_its_own_tensors_gets_their_gradients(monkeypatch):
    """Of a parameter in a closure, and of one that was computed before."""
    monkeypatch.setattr(dispatch, "LARGE", 0)
    warmth = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    for factor in (warmth, warmth.exp()):
        made, leaves = call("scaled_dot", lambda s, f=factor: (s * f).softmax(-1), None)
        in_three(monkeypatch, made)
        compare(block_backend.blocks, made, [*leaves, warmth])


def test_the_block_backend_has_second_derivatives(monkeypatch):
    made, leaves = call("scaled_dot", lambda s: s.sigmoid(), Window(1), m=3, n=3)
    in_three(monkeypatch, made)
    assert torch.autograd.gradgradcheck(
        lambda q, k, v: block_backend.blocks(replace(made, query=q, keys=k, values=v)), leaves
    )
