"""The sparse backend gives the plain context and gradients, with masks, terms, sinks, groups and dropout."""

from dataclasses import replace

import pytest
import torch

import regard
from regard import attend
from regard.backends import sparse
from regard.backends.plain import plain
from regard.masks import Causal, Lengths, Window
from regard.scores import Additive, ScaledDot
from regard.scores.score import ByDistance, Products

M, N, D = 130, 140, 4
MASKS = {
    "nothing": lambda: None,
    "causal": Causal,
    "joined": lambda: Window(20) & Causal() & Lengths(torch.tensor([N, 4])),
    "for each sequence": lambda: torch.rand(2, 1, M, N) > 0.7,
    "joined with a tensor": lambda: Causal() & (torch.rand(M, N) > 0.5),
    "blocks": lambda: torch.arange(M).unsqueeze(1) // 40 == torch.arange(N) // 40,
}


class Everything(ScaledDot):
    """A score with all that products can have."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(M, N, dtype=torch.float64))
        self.table = torch.nn.Parameter(torch.randn(3, 1, 31, dtype=torch.float64))

    def products(self, query, keys, place):
        return Products(*self.factors(query, keys), self.bias, ByDistance(self.table, -15), 3.0)

    def forward(self, query, keys):
        return self.products(query, keys, None).written()


def made(mask=None, map="entmax15", score=None, keys=(2, 3), **settings):
    torch.manual_seed(0)
    q = torch.randn(2, 3, M, D, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(*keys, N, D, dtype=torch.float64, requires_grad=True) for _ in range(2))
    call = attend(q, k, v, score=score or ScaledDot(), map=map, mask=mask)._call
    return replace(call, **settings), [q, k, v]


def compare(call, leaves):
    leaves = [*leaves, *call.parameters()]
    assert sparse.takes(call)
    want, got = plain(call)[0], sparse.sparse(call)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    pairs = (torch.autograd.grad(z, leaves, torch.ones_like(want), retain_graph=True) for z in (want, got))
    for a, b in zip(*pairs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("map", ["entmax15", "sparsemax"])
def test_masks(mask, map):
    compare(*made(MASKS[mask](), map))


@pytest.mark.parametrize("mask", MASKS)
def test_masks_with_everything_else(mask):
    sink = torch.randn(3, 1, dtype=torch.float64, requires_grad=True)
    compare(*made(MASKS[mask](), score=Everything(), sink=sink))


@pytest.mark.parametrize("tracked", [True, False])
def test_a_mask_that_is_too_large_is_written_some_rows_at_a_time(monkeypatch, tracked):
    monkeypatch.setattr(sparse, "MASK", 50 * N)
    seen = []
    real = sparse.sparse_attention
    monkeypatch.setattr(
        sparse, "sparse_attention", lambda q, *r, **s: seen.append(q.shape[-2]) or real(q, *r, **s)
    )
    call, leaves = made(MASKS["joined with a tensor"]())
    seen.clear()
    with torch.set_grad_enabled(tracked):
        want, got = plain(call)[0], sparse.sparse(call)
    assert seen == [50, 50, 30]
    torch.testing.assert_close(got, want)
    if tracked:
        pairs = (torch.autograd.grad(z.sum(), leaves, retain_graph=True) for z in (got, want))
        for a, b in zip(*pairs, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("keys", [(2, 1), (1, 1), (3,)])
def test_shared_keys(keys):
    compare(*made(Causal(), keys=keys))
    compare(*made(Causal(), score=Everything(), keys=keys))


def test_what_is_hidden_may_hold_anything():
    call, (q, k, v) = made()
    hidden = torch.arange(N) >= 100
    mask = Lengths(torch.tensor([100, 100]))
    bad = [t.detach().masked_fill(hidden[:, None], float("nan")).requires_grad_() for t in (k, v)]
    seen = attend(q, *bad, map="entmax15", mask=mask, dropout=0.2).context
    assert not seen.isnan().any()
    assert not any(g.isnan().any() for g in torch.autograd.grad(seen.sum(), (q, *bad)))


def test_dropout_keeps_the_backend_and_repeats_with_the_seed():
    call, (q, k, v) = made(dropout=0.3)
    assert sparse.takes(call)
    torch.manual_seed(1)
    one = attend(q, k, v, map="entmax15", dropout=0.3)
    torch.manual_seed(1)
    assert torch.equal(sparse.sparse(call), one.context)
    kept = attend(q, k, torch.eye(N, dtype=q.dtype).expand(2, 3, N, N), map="entmax15", dropout=0.3).context
    torch.testing.assert_close(kept[kept > 0], (one.weights / 0.7)[kept > 0])
    assert 0.6 < (kept > 0).sum() / (one.weights > 0).sum() < 0.8


def test_other_scores_are_not_taken():
    call, _ = made(score=Additive(D, D).double())
    assert not sparse.takes(call) or sparse.sparse(call) is None
    q = torch.randn(1, M, D, dtype=torch.float64)
    context = regard.attend(q, q, score=Additive(D, D).double(), map="entmax15").context
    assert context.shape == q.shape
