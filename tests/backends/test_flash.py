"""The flash backend cuts a call into tiles, with any mask and term, and gives the plain answer."""

from dataclasses import replace

import pytest
import torch

import regard
from regard.backends import flash as backend
from regard.backends import flash_steps, flash_tiles
from regard.backends.plain import plain
from regard.masks import Blocks, Causal, Documents, Lengths, Prefix, Window
from regard.scores import ScaledDot
from regard.scores.score import ByDistance, Products, Score

M, N, D, V = 10, 12, 4, 3
MASKS = {
    "nothing": lambda m, n: None,
    "causal": lambda m, n: Causal(),
    "lengths": lambda m, n: Lengths(torch.tensor([n, 0])),
    "causal & lengths": lambda m, n: Causal() & Lengths(torch.tensor([n, 4])),
    "window": lambda m, n: Window(1),
    "window & causal": lambda m, n: Window(2) & Causal(),
    "documents": lambda m, n: Documents(torch.stack([torch.arange(n) // 5, torch.arange(n) // 3])),
    "pieces": lambda m, n: Documents(torch.arange(n) // 2 % 3) & Causal(),
    "prefix": lambda m, n: Prefix(torch.tensor([3, 0])) & Lengths(torch.tensor([n, n - 2])),
    "blocks": lambda m, n: Blocks(torch.eye(n // 2, dtype=torch.bool), 2),
    "per head": lambda m, n: torch.arange(2 * 2 * m * n).reshape(2, 2, m, n) % 5 > 1,
    "of keys": lambda m, n: torch.arange(n) > 3,
    "either": lambda m, n: Window(1) | Lengths(torch.tensor([2, 0])),
    "not": lambda m, n: ~Window(n - 4),
}
TERMS = {
    "bare": {},
    "bias": {"bias": (2, M, N)},
    "bias of keys": {"bias": (2, 1, N)},
    "bias of all": {"bias": (2, 1, 1, 1)},
    "distance": {"table": (2, 1, 7), "first": -3},
    "distance to the right": {"table": (1, 2), "first": 4},
    "one distance": {"table": (2, 2, 1, 1), "first": 0},
    "distance by query": {"table": (2, 2, M, 5), "first": -2},
    "both": {"bias": (M, N), "table": (2, 1, 30), "first": -12},
    "cap": {"cap": 1.5},
    "cap and both": {"cap": 1.5, "bias": (2, M, N), "table": (2, 1, 7), "first": -3},
}
every_mask = pytest.mark.parametrize("mask", MASKS)
every_term = pytest.mark.parametrize("terms", TERMS)


class Given(Score):
    """The scaled dot product with given terms."""

    uses_place = True

    def __init__(self, bias=None, table=None, first=0, cap=None):
        super().__init__()
        noise = torch.Generator().manual_seed(1)
        self.made = [
            None
            if shape is None
            else torch.nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=noise))
            for shape in (bias, table)
        ]
        self.own = torch.nn.ParameterList(p for p in self.made if p is not None)
        self.first, self.cap = first, cap

    def forward(self, query, keys, place):
        return self.products(query, keys, place).written()

    def products(self, query, keys, place):
        bias, table = self.made
        distance = None if table is None else ByDistance(table, self.first)
        return Products(query / 2, keys, bias, distance, self.cap)


@pytest.fixture
def small(monkeypatch):
    """Tiles of a few numbers."""
    for where, name, value in (
        (flash_tiles, "TALL", 6),
        (flash_tiles, "SHORT", 3),
        (flash_tiles, "WIDE", 2),
        (flash_tiles, "FEW", 30),
        (flash_steps, "ROWS", 2),
    ):
        monkeypatch.setattr(where, name, value)


def made(terms, mask, shapes=((2, 2, M, D), (2, 2, N, D), (2, 2, N, V)), sink=None, dtype=torch.float64):
    noise = torch.Generator().manual_seed(0)
    leaves = [torch.randn(s, dtype=dtype, generator=noise).requires_grad_() for s in shapes]
    score = Given(**TERMS[terms]) if isinstance(terms, str) else terms
    m, n = leaves[0].shape[-2], leaves[1].shape[-2]
    mask = MASKS[mask](m, n) if isinstance(mask, str) else mask
    call = regard.attend(*leaves, score=score, mask=mask)._call
    if sink is not None:
        sink = torch.randn(sink, dtype=dtype, generator=noise).requires_grad_()
        leaves.append(sink)
    return replace(call, sink=sink), [*leaves, *score.parameters()]


def same(call, leaves, tol=1e-9):
    want, got = plain(call)[0], backend.flash(call)
    torch.testing.assert_close(got, want, rtol=tol, atol=tol)
    g = torch.randn(want.shape, dtype=want.dtype, generator=torch.Generator().manual_seed(3))
    slopes = [torch.autograd.grad(z, leaves, g, allow_unused=True, retain_graph=True) for z in (want, got)]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(b, a, rtol=tol, atol=tol)
    with torch.no_grad():
        torch.testing.assert_close(backend.flash(call), want, rtol=tol, atol=tol)


@every_mask
@every_term
@pytest.mark.parametrize("sink", [None, (2, 1)], ids=["", "sink"])
def test_values_and_gradients_are_the_plain_ones(small, terms, mask, sink):
    same(*made(terms, mask, sink=sink))


@pytest.mark.parametrize("mask", ["nothing", "causal", "causal & lengths", "either"])
@pytest.mark.parametrize("terms", ["bare", "distance", "bias", "distance by query", "cap and both"])
def test_queries_that_share_keys(small, terms, mask):
    """Two heads of keys, and three queries to each."""
    settings = dict(TERMS[terms])
    for name in ("bias", "table"):
        if name in settings:
            settings[name] = (2, 3, *settings[name][-2:])
    shapes = (2, 2, 3, M, D), (2, 2, 1, N, D), (2, 2, 1, N, V)
    same(*made(Given(**settings), mask, shapes, sink=(2, 3, M)))
    same(*made(Given(**settings), mask, shapes))


@pytest.mark.parametrize(
    "shapes",
    [
        ((N, D), (N, D), (N, D)),
        ((3, N, D), (3, N, D), (3, N, D)),
        ((3, 1, D), (1, N, D), (1, N, D)),
        ((5, N, D), (N, D), (N, D)),
        ((1, D), (3, N, D), (3, N, V)),
        ((2, 2, 2, N, D), (2, 2, 2, N, D), (2, 2, 2, N, D)),
        ((2, 1, 2, N, D), (1, 2, 1, N, D), (2, 2, 2, N, V)),
        ((2, 3, N, D), (2, 1, N, D), (2, 3, N, D)),
        ((1, 1, 1, D), (1, 1, 1, D), (1, 1, 1, D)),
        ((2, 14, D), (2, 3, D), (2, 3, D)),
    ],
    ids=str,
)
@pytest.mark.parametrize("mask", [None, Causal(), Window(2)], ids=str)
def test_any_axes(small, shapes, mask):
    same(*made(ScaledDot(), mask, shapes))


@pytest.mark.parametrize("mask", ["nothing", "causal & lengths", "window", "pieces"])
@pytest.mark.parametrize("terms", ["bare", "both", "cap and both", "distance by query"])
def test_second_derivatives(small, terms, mask):
    call, leaves = made(terms, mask, sink=(2, 1))
    slopes = []
    for run in (lambda c: plain(c)[0], backend.flash):
        first = torch.autograd.grad(run(call).square().sum(), leaves, create_graph=True)
        slopes.append(torch.autograd.grad(sum(g.square().sum() for g in first), leaves, retain_graph=True))
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(b, a)


@pytest.mark.parametrize("mask", ["nothing", "causal & lengths", "documents"])
@pytest.mark.parametrize("terms", ["bare", "both", "cap"])
def test_dropout_is_the_same_again_in_backward(small, terms, mask):
    """With values that are unit vectors the context is the weights kept: all else follows from them."""
    eye = torch.eye(N, dtype=torch.float64).expand(2, 2, N, N)
    call, leaves = made(terms, mask, ((2, 2, M, D), (2, 2, N, D), (2, 2, N, N)))
    call = replace(call, values=eye.clone().requires_grad_(), dropout=0.5)
    leaves[2] = call.values
    torch.manual_seed(5)
    kept = backend.flash(call)
    weights = plain(replace(call, dropout=0.0))[1]
    factor = torch.where(kept == 0, 0.0, 2.0)
    torch.testing.assert_close(kept, weights * factor)
    assert 0.3 < (kept != 0).double().sum() / (weights > 0).sum() < 0.7
    g = torch.randn_like(kept)
    want = torch.autograd.grad(
        weights * factor @ call.values, leaves, g, retain_graph=True, allow_unused=True
    )
    for graph in (False, True):
        got = torch.autograd.grad(kept, leaves, g, retain_graph=True, create_graph=graph, allow_unused=True)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b)


def test_dropout_leaves_the_causal_mask(small):
    """As many queries as keys: the kernel's own mask would do, and the steps that drop weights are not it."""
    eye = torch.eye(N, dtype=torch.float64).expand(2, 2, N, N)
    call, _ = made("bare", "causal", ((2, 2, N, D), (2, 2, N, D), (2, 2, N, N)))
    kept = backend.flash(replace(call, values=eye, dropout=0.5))
    assert bool((kept.triu(1) == 0).all()) and bool((kept.tril() != 0).any())


@every_mask
def test_hidden_keys_can_hold_anything(small, mask):
    shown = MASKS[mask](M, N)
    seen, sees = (
        (None, None) if shown is None else regard.masks.as_mask(shown).seen(M, N, 2, torch.device("cpu"))
    )
    answers = []
    for filling in (0.0, float("nan")):
        q, k, v = (torch.randn(2, 2, s, D, generator=torch.Generator().manual_seed(s)) for s in (M, N, N))
        for x, who in ((q, sees), (k, seen), (v, seen)):
            if who is not None:
                x[~who.expand(2, 2, x.shape[-2])] = filling
        leaves = [x.requires_grad_() for x in (q, k, v)]
        context = regard.attend(*leaves, mask=shown).context
        answers.append([context, *torch.autograd.grad(context.square().sum(), leaves)])
    for a, b in zip(*answers, strict=True):
        assert a.isfinite().all() and torch.equal(a, b)


def test_a_bias_of_minus_infinity_hides_and_may_leave_nothing(small):
    bias = torch.zeros(M, N, dtype=torch.float64)
    bias[3] = bias[:, 5] = -torch.inf
    for mask in (None, Causal(), torch.arange(N) != 7):
        call, leaves = made(ScaledDot() + regard.positions.Bias(bias), mask)
        products = Products(call.query / 2, call.keys, bias)
        context = backend._tiled(call, products, call.values)
        torch.testing.assert_close(context, plain(call)[0])
        assert (context[..., 3, :] == 0).all()
        for a, b in zip(
            *(torch.autograd.grad(z.sum(), leaves[:3], retain_graph=True) for z in (context, plain(call)[0])),
            strict=True,
        ):
            torch.testing.assert_close(a, b)


def test_long_rows_with_large_tiles(monkeypatch):
    """The sizes that the kernel cuts rows by, and ours."""
    monkeypatch.setattr(flash_tiles, "MANY", 1 << 18)
    torch.manual_seed(0)
    for mask in (
        Window(20),
        Causal() & Lengths(torch.tensor([1100])),
        Documents(torch.arange(1200) // 50 % 7),
    ):
        call, leaves = made(ScaledDot(), mask, ((1, 700, 8), (1, 1200, 8), (1, 1200, 8)))
        assert len(flash_tiles.tiles_of(mask, 700, 1200, 1, torch.device("cpu"), gaps=True)) > 1
        same(call, leaves)


def test_half_precision_is_computed_in_single():
    x = torch.randn(2, 2, N, D, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.bfloat16, torch.float16):
        half = x.to(dtype)
        context = regard.attend(half, half, mask=Window(2)).context
        assert context.dtype == dtype
        assert torch.equal(
            context, regard.attend(half.float(), half.float(), mask=Window(2)).context.to(dtype)
        )


def test_a_mask_that_was_changed_before_backward_is_an_error():
    x, mask = torch.randn(1, N, D, requires_grad=True), torch.ones(N, N, dtype=torch.bool)
    context = regard.attend(x, x, mask=mask).context
    mask[0] = False
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        context.sum().backward()


def test_only_tiles_that_hold_something_are_computed():
    tiles = flash_tiles.tiles_of(Window(64), 4096, 4096, 2, torch.device("cpu"), gaps=True)
    assert sum((t.stop - t.start) * t.width for t in tiles) < 0.1 * 4096**2
    packed = Documents(torch.arange(4096) // 256 % 4)  # each document in four pieces
    tiles = flash_tiles.tiles_of(packed, 4096, 4096, 2, torch.device("cpu"), gaps=True)
    assert all(t.index is not None and t.width == 1024 for t in tiles)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (1, 3, 1), (2, 1, 3)])
@pytest.mark.parametrize("mask", [None, Causal()])
def test_what_torch_takes_as_it_is(batch, mask):
    torch.manual_seed(0)
    q, (k, v) = torch.randn(*batch, 1, 8), (torch.randn(*batch, 20, 8) for _ in range(2))
    with torch.no_grad():
        seen = regard.attend(q, k, v, mask=mask, scale=0.3)
        assert backend.bare(seen._call)
        torch.testing.assert_close(seen.context, plain(seen._call)[0])
        assert not backend.bare(regard.attend(q, k, v[..., :5])._call)  # torch has no kernel for two widths
    assert not backend.bare(regard.attend(q.requires_grad_(), k, v)._call)


@pytest.mark.parametrize("batch", [1, 3, 5])
def test_causal_heads_that_share_keys_equal_heads_with_copies(batch):
    """A batch up to the size of a group is one kernel call for each text, a larger one for each head."""
    torch.manual_seed(0)
    query = torch.randn(batch, 6, 40, 8, dtype=torch.float64, requires_grad=True)
    keys, values = (torch.randn(batch, 2, 40, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found = []
    for groups in (3, 1):
        k, v = (t if groups > 1 else t.repeat_interleave(3, 1) for t in (keys, values))
        context = regard.attend(query, k, v, mask=Causal(), groups=groups).context
        grads = torch.autograd.grad(context.square().sum(), (query, keys, values))
        with torch.no_grad():
            again = regard.attend(query, k, v, mask=Causal(), groups=groups).context
        found.append((context, again, *grads))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)
