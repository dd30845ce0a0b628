"""Sparse attention with shared keys, terms, a sink, a cap and dropout against the definition."""

import pytest
import torch

from kernels.sparse_definition import plain, weights
from regard.kernels.attention import sparse_attention as operator
from regard.kernels.attention.sparse_attention import sparse_attention as sparse

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
every_alpha = pytest.mark.parametrize("alpha", [1.5, 2.0])
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
M, N, D = 61, 90, 8
BATCH = (2, 3)


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)), dtype=torch.float64)


TERMS = {
    "nothing": lambda m, n: {},
    "bias of keys": lambda m, n: {"bias": noise(n)},
    "bias of queries": lambda m, n: {"bias": noise(m, 1)},
    "bias for all heads": lambda m, n: {"bias": noise(2, 1, m, n)},
    "bias for all batches": lambda m, n: {"bias": noise(3, m, n)},
    "bias for each": lambda m, n: {"bias": noise(2, 3, m, n)},
    "bias of keys for each": lambda m, n: {"bias": noise(2, 3, 1, n)},
    "bias, transposed": lambda m, n: {"bias": noise(3, n, 2 * m).mT[:, ::2]},
    "bias with −inf": lambda m, n: {"bias": noise(m, n).masked_fill(noise(m, n, seed=1) > 0.5, -torch.inf)},
    "alibi": lambda m, n: {"table": -0.1 * torch.arange(n).flip(0).double().expand(1, n), "first": 1 - m},
    "distances": lambda m, n: {"table": noise(3, 1, m + n - 1), "first": 1 - m},
    "distances, clipped": lambda m, n: {"table": noise(3, 1, 21), "first": -10 + n - m},
    "one distance": lambda m, n: {"table": noise(1, 1), "first": 2},
    "distances of each query": lambda m, n: {"table": noise(2, 3, m, 21), "first": -10},
    "distances of each query for all": lambda m, n: {"table": noise(m, m + n), "first": -m},
    "sink": lambda m, n: {"sink": noise(3, 1)},
    "sink of each query": lambda m, n: {"sink": noise(2, 1, m)},
    "no sink": lambda m, n: {"sink": noise(3, 1).new_full((3, 1), -torch.inf)},
    "cap": lambda m, n: {"cap": 0.8},
    "everything": lambda m, n: {
        "bias": noise(2, 1, m, n), "table": noise(3, 1, 31), "first": -15, "sink": noise(3, 1), "cap": 2.0,
    },
}  # fmt: skip
VIEWS = {
    "all": lambda m, n: {},
    "causal": lambda m, n: {"hi": torch.arange(n - m + 1, n + 1)},
    "some see nothing": lambda m, n: {"mask": (noise(2, 1, m, n) > 0.5) & (torch.arange(m) % 5 > 0)[:, None]},
}


def inputs(dtype=torch.float64, m=M, n=N, keys=BATCH, values=BATCH, d=D, scale=1.0):
    q, k, v = noise(*BATCH, m, d), noise(*keys, n, d, seed=1), noise(*values, n, d + 1, seed=2)
    return [t.to(dtype).requires_grad_() for t in (q * scale / d**0.5, k, v)]


def leaves(terms, dtype):
    return {
        name: t.to(dtype).requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
        for name, t in terms.items()
    }


def check(q, k, v, alpha, tolerance=None, **settings):
    """Context and all gradients are those of the definition."""
    tolerance = TOLERANCE[q.dtype] if tolerance is None else tolerance
    learned = [q, k, v, *(t for t in settings.values() if isinstance(t, torch.Tensor) and t.requires_grad)]
    got, want = sparse(q, k, v, alpha=alpha, **settings), plain(q, k, v, alpha, **settings)
    assert got.dtype == q.dtype
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)
    g = noise(*got.shape, seed=3).to(q.dtype)
    pairs = (torch.autograd.grad(z, learned, g.to(z.dtype), allow_unused=True) for z in (got, want))
    for x, a, b in zip(learned, *pairs, strict=True):
        b = torch.zeros_like(x) if b is None else b
        assert a.shape == x.shape
        size = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a.double() / size, b.double() / size, rtol=tolerance, atol=tolerance)


@every_alpha
@every_dtype
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("terms", TERMS)
def test_terms(alpha, dtype, terms, view):
    check(*inputs(dtype), alpha, **leaves(TERMS[terms](M, N), dtype), **VIEWS[view](M, N))


SHARED = {
    "grouped queries": ((2, 1), (2, 1)),
    "one for all": ((1, 1), (1, 1)),
    "one for all, fewer axes": ((), ()),
    "keys alone": ((2, 1), (2, 3)),
    "values alone": ((2, 3), (1, 3)),
    "crosswise": ((2, 1), (1, 3)),
}


@every_alpha
@every_dtype
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("terms", ["nothing", "everything"])
def test_shared_keys_and_values(alpha, dtype, shared, terms):
    keys, values = SHARED[shared]
    check(*inputs(dtype, keys=keys, values=values), alpha, **leaves(TERMS[terms](M, N), dtype))


def test_shared_keys_are_read_where_they_are():
    """Panels and gradients are of the size of the keys, not of the queries."""
    q, k, v = inputs(keys=(1, 1), values=(1, 1), m=200, n=200)
    sizes = []
    real = operator.forward.__globals__["panels_of"]
    operator.forward.__globals__["panels_of"] = lambda t: sizes.append(tuple(t.shape)) or real(t)
    try:
        sparse(q, k, v, alpha=1.5)
    finally:
        operator.forward.__globals__["panels_of"] = real
    assert sizes == [(1, 200, D)]


@every_alpha
@pytest.mark.parametrize("terms", ["distances, clipped", "bias for all batches", "everything"])
def test_supports_without_room_are_found_again(monkeypatch, alpha, terms):
    monkeypatch.setattr(operator, "ROOM", 2)
    monkeypatch.setattr(operator, "LEAST", 0)
    check(*inputs(scale=0.1), alpha, **leaves(TERMS[terms](M, N), torch.float64))


@every_alpha
@pytest.mark.parametrize("terms", [name for name in TERMS if name not in ("bias with −inf", "no sink")])
def test_derivatives(alpha, terms):
    m, n = 3, 5
    made = leaves(TERMS[terms](m, n), torch.float64)
    names = [name for name, t in made.items() if isinstance(t, torch.Tensor)]

    def context(q, k, v, *learned):
        named = dict(zip(names, learned, strict=True))
        return sparse(q, k, v, alpha=alpha, hi=torch.tensor([5, 4, 0]), **{**made, **named})

    given = (*inputs(m=m, n=n, d=2, keys=(2, 1), values=(2, 1)), *(made[name] for name in names))
    few = [t[:1].detach().requires_grad_() if t.dim() > 2 and t.shape[0] == 2 else t for t in given]
    assert torch.autograd.gradcheck(context, few, fast_mode=True)
    assert torch.autograd.gradgradcheck(context, few, fast_mode=True)


@every_alpha
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["bias", "sink", "table"])
def test_a_broken_term_breaks_the_rows_it_is_added_to(alpha, bad, where):
    q, k, v = inputs()
    term = {"bias": noise(M, N), "sink": noise(2, 1, M), "table": noise(M, 9)}[where]
    term.select(-1 if where == "sink" else -2, 4).fill_(bad)
    term.requires_grad_()
    z = sparse(q, k, v, alpha=alpha, **{where: term})
    fine = [i for i in range(M) if i != 4]
    assert z[..., 4, :].isnan().all()
    assert not z[..., fine, :].isnan().any()
    dq, dterm = torch.autograd.grad(z.sum(), (q, term))
    assert dq[..., 4, :].isnan().all() and not dq[..., fine, :].isnan().any()
    assert dterm.isnan().any()


def dropped(q, k, v, alpha, rate, seed=0, **settings):
    torch.manual_seed(seed)
    return sparse(q, k, v, alpha=alpha, rate=rate, **settings)


@every_alpha
@every_dtype
def test_dropout_sets_weights_to_zero_and_divides_the_others(alpha, dtype):
    q, k, _ = inputs(dtype, scale=0.2)
    unit = torch.eye(N, dtype=dtype)
    p, kept = plain(q, k, unit, alpha).to(dtype), dropped(q, k, unit, alpha, 0.25)
    zero = kept == 0
    torch.testing.assert_close(kept, torch.where(zero, 0, p / 0.75), rtol=1e-4, atol=1e-5)
    assert 0.22 < (zero & (p > 1e-4)).sum() / (p > 1e-4).sum() < 0.28
    assert torch.equal(kept, dropped(q, k, unit, alpha, 0.25))
    assert not torch.equal(kept, dropped(q, k, unit, alpha, 0.25, seed=1))
    mean = sum(dropped(q, k, unit, alpha, 0.25, seed=i) for i in range(200)) / 200
    assert (mean - p).abs().max() < 0.2 * p.max()
    assert (mean - p).mean().abs() < 0.01 * p.mean()


@every_alpha
def test_gradients_under_dropout_are_those_of_the_same_draw(alpha):
    q, k, v = inputs(m=4, n=7, d=2, keys=(2, 1), values=(2, 1))
    assert torch.autograd.gradcheck(lambda *t: dropped(*t, alpha, 0.4), (q, k, v), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *t: dropped(*t, alpha, 0.4), (q, k, v), fast_mode=True)
    sink = noise(2, 3, 4).requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda *t: dropped(*t[:3], alpha, 0.4, sink=t[3]), (q, k, v, sink), fast_mode=True
    )


@every_alpha
def test_threads_change_no_bit(alpha):
    """Of anything: with keys, a table and a bias that slices share, in parts."""
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            q, k, v = inputs(torch.float32, m=1100, n=64, keys=(1, 1), values=(1, 1))
            terms = leaves({"table": noise(1, 31), "bias": noise(1100, 64), "sink": noise(3, 1)}, q.dtype)
            z = dropped(q, k, v, alpha, 0.1, first=-15, **terms)
            found.append([z, *torch.autograd.grad(z.square().sum(), (q, k, v, *terms.values()))])
    finally:
        torch.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


@every_alpha
def test_a_sink_of_rows_that_see_nothing_takes_all(alpha):
    q, k, v = inputs()
    sink = noise(3, 1).requires_grad_()
    z = sparse(q, k, v, alpha=alpha, sink=sink, hi=torch.zeros(1, dtype=torch.int64))
    assert (z == 0).all()
    assert all((g == 0).all() for g in torch.autograd.grad(z.sum(), (q, k, v, sink)))


@every_alpha
def test_a_high_sink_takes_all_and_a_low_one_nothing(alpha):
    q, k, v = inputs()
    high = sparse(q, k, v, alpha=alpha, sink=torch.full((1,), 1e6, dtype=torch.float64))
    low = sparse(q, k, v, alpha=alpha, sink=torch.full((1,), -1e6, dtype=torch.float64))
    assert (high == 0).all()
    torch.testing.assert_close(low, weights(q @ k.mT, alpha) @ v)
