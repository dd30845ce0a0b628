"""Every road leads to the plain context, in values and in gradients, and says when it does not lead there."""

from dataclasses import replace

import pytest
import torch

import regard
from regard import MAPS, SCORES
from regard.masks import Causal, Lengths, Window
from regard.positions import Distance, Order, Relative
from regard.roads import blocks as block_road
from regard.roads import choose, flash
from regard.roads.plain import plain
from regard.scores import Additive, ScaledDot

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
    return replace(regard.attend(q, k, v, score=score, map=map, mask=mask).call, dropout=dropout), (q, k, v)


def compare(road, call, leaves, tol=1e-9):
    leaves = [*leaves, *call.parameters()]
    want, got = plain(call)[0], road(call)
    torch.testing.assert_close(got, want, rtol=tol, atol=tol)
    if want.requires_grad:
        g = torch.randn_like(want)
        for a, b in zip(
            *(torch.autograd.grad(o, leaves, g, allow_unused=True, retain_graph=True) for o in (want, got)),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=tol, atol=tol)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("map", ROWS)
@pytest.mark.parametrize("terms", TERMS)
def test_the_block_road(monkeypatch, terms, map, mask):
    made, leaves = call(TERMS[terms](), map, MASKS[mask]())
    monkeypatch.setattr(
        block_road, "BUDGET", block_road.size(made) // 3
    )  # three blocks, the last one shorter
    compare(block_road.blocks, made, leaves)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", [name for name in SCORES if SCORES[name].factored])
def test_the_flash_road(score, mask):
    made, leaves = call(score, "softmax", MASKS[mask]())
    assert flash.takes(made)
    compare(flash.flash, made, leaves)
    square, leaves = call(
        score, "softmax", MASKS[mask]() if mask in ("nothing", "causal", "lengths") else None, m=N
    )
    compare(flash.flash, square, leaves)


def test_the_flash_road_has_second_derivatives():
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


def test_each_road_is_chosen_where_it_leads(monkeypatch):
    taken = []
    for where, name in ((flash, "flash"), (choose, "blocks"), (choose, "plain"), (choose, "sparse_road")):
        real = getattr(where, name)
        monkeypatch.setattr(where, name, lambda c, real=real, name=name: (taken.append(name), real(c))[1])

    def road(**settings):
        taken.clear()
        n = settings.pop("n", 16)
        q = torch.randn(1, n, 8)
        regard.attend(q, q, **settings)
        return taken[-1]

    assert road() == "flash"
    assert road(score=regard.scores.Additive(8, 8)) == "plain"
    assert road(map="sigmoid") == "plain"
    assert road(map="sigmoid", n=3000) == "blocks"
    assert road(map="entmax15", n=512) == "sparse_road"
    assert road(map=lambda s: s.softmax(-1)) == "plain"
    assert road(mask=Causal() & Lengths(torch.tensor([3000])), n=3000) == "blocks"


def test_dropout_on_the_block_road_is_the_same_again_in_backward(monkeypatch):
    """With values of 1 the context is the weight kept; its gradient must agree with it, draw for draw."""
    made, (q, k, v) = call("scaled_dot", "softmax", None, dropout=0.5)
    monkeypatch.setattr(block_road, "BUDGET", block_road.size(made) // 3)
    context = block_road.blocks(made)
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
    assert peak(2 * n) < 2.5 * peak(n)  # the plain road would need four times as much
