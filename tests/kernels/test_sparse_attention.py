"""Sparse attention against the definition: values and gradients, whatever scores and masks are."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.sparse_definition import plain, weights
from regard.kernels.attention import sparse_attention as operator
from regard.kernels.attention.sparse_attention import sparse_attention as sparse
from regard.kernels.attention.sparse_lists import AGAIN

ALPHAS = (1.5, 2.0)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def inputs(batch, m, n, d=8, d_v=8, scale=1.0, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    q, k, v = torch.randn(batch, m, d), torch.randn(batch, n, d), torch.randn(batch, n, d_v)
    return tuple(t.to(dtype).requires_grad_() for t in (q * scale / d**0.5, k, v))


def check(q, k, v, alpha, tolerance=None, **view):
    """Context and gradients are those of the definition."""
    tolerance = TOLERANCE[q.dtype] if tolerance is None else tolerance
    got, want = sparse(q, k, v, alpha=alpha, **view), plain(q, k, v, alpha, **view)
    assert got.dtype == q.dtype
    assert got.shape == want.shape
    g = torch.randn(got.shape, generator=torch.Generator().manual_seed(1)).to(q.dtype)
    with torch.no_grad():
        assert torch.equal(sparse(q, k, v, alpha=alpha, **view), got)  # storing nothing changes nothing
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)
    for a, b in zip(
        torch.autograd.grad(got, (q, k, v), g),
        torch.autograd.grad(want, (q, k, v), g.double(), allow_unused=True),
        strict=True,
    ):
        size = max(1.0, b.abs().max().item()) if b.numel() else 1.0
        torch.testing.assert_close(a.double() / size, b.double() / size, rtol=tolerance, atol=tolerance)


@every_alpha
@every_dtype
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 5.0, 200.0])
def test_it_is_the_definition_from_flat_to_peaked(alpha, dtype, scale):
    tolerance = TOLERANCE[dtype] * max(1.0, scale / 5)  # the scores themselves have no more digits
    check(*inputs(2, 101, 333, scale=scale, dtype=dtype), alpha, tolerance)


@every_alpha
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 63, 64, 65, 300])
@pytest.mark.parametrize("m", [1, 6, 47, 49])
def test_any_number_of_queries_and_keys(alpha, m, n):
    check(*inputs(2, m, n), alpha)


@every_alpha
@every_dtype
@pytest.mark.parametrize(("d", "d_v"), [(1, 1), (3, 40), (64, 5), (33, 32), (96, 65)])
def test_any_width(alpha, dtype, d, d_v):
    check(*inputs(2, 30, 90, d, d_v, dtype=dtype), alpha)


@every_alpha
@given(
    rows=st.lists(st.lists(st.integers(-8, 8), min_size=5, max_size=5), min_size=1, max_size=7),
    by=st.sampled_from([0.1, 0.25, 1.0]),
)
@settings(deadline=None, max_examples=40)
def test_ties(alpha, rows, by):
    theta = by * torch.tensor(
        [rows], dtype=torch.float64
    )  # (1, m, 5): with unit keys and values, q is θ and z is p
    unit = torch.eye(5, dtype=torch.float64).unsqueeze(0)
    torch.testing.assert_close(
        sparse(theta, unit, unit, alpha=alpha), weights(theta, alpha), rtol=1e-12, atol=1e-12
    )


@every_alpha
@every_dtype
def test_keys_in_the_worst_order(alpha, dtype):
    """Rising scores, so that each key is above the floor of those before it, and falling ones."""
    n = 400
    for slope in (0.001, 0.02, -0.02):
        k = (slope * torch.arange(n, dtype=dtype)).reshape(1, n, 1)
        q, v = torch.linspace(0.1, 3, 20, dtype=dtype).reshape(1, 20, 1), torch.randn(1, n, 3, dtype=dtype)
        check(*(t.requires_grad_() for t in (q, k, v)), alpha)


VIEWS = {
    "causal": lambda b, m, n: {"hi": torch.arange(n - m + 1, n + 1).clamp(min=0)},
    "lengths": lambda b, m, n: {"hi": torch.tensor([[n], [0], [1 + n // 2]])[:b]},
    "window": lambda b, m, n: {"lo": torch.arange(m) - 3, "hi": torch.arange(m, dtype=torch.int32) + 4},
    "some see nothing": lambda b, m, n: {
        "lo": torch.arange(m) % 5 * n // 3,
        "hi": torch.arange(m) % 7 * n // 6,
    },
    "keys": lambda b, m, n: {"mask": torch.arange(n) % 3 > 0},
    "pairs": lambda b, m, n: {"mask": torch.rand(m, n) > 0.5},
    "one for all queries": lambda b, m, n: {"mask": torch.rand(b, 1, n) > 0.5},
    "one for all keys": lambda b, m, n: {"mask": torch.rand(b, m, 1) > 0.5},
    "everything": lambda b, m, n: {"mask": torch.rand(b, m, n) > 0.9},
    "transposed": lambda b, m, n: {"mask": (torch.rand(n, 2 * m, b) > 0.3).permute(2, 1, 0)[:, ::2]},
    "blocks": lambda b, m, n: {"mask": torch.arange(m).unsqueeze(1) * 5 // m == torch.arange(n) * 5 // n},
    "both": lambda b, m, n: {"lo": torch.arange(m) // 2, "mask": torch.rand(m, n) > 0.3},
}


@every_alpha
@every_dtype
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("m", "n"), [(5, 4), (60, 150), (150, 60)])
def test_masks(alpha, dtype, view, m, n):
    q, k, v = inputs(3, m, n, dtype=dtype)
    check(q, k, v, alpha, **VIEWS[view](3, m, n))


@every_alpha
def test_a_row_that_sees_nothing_is_zero_and_moves_nothing(alpha):
    q, k, v = inputs(2, 5, 70)
    z = sparse(q, k, v, alpha=alpha, hi=torch.tensor([70, 0, 70, 70, 0]))
    assert (z[:, [1, 4]] == 0).all()
    for t in torch.autograd.grad(z[:, [1, 4]].sum(), (q, k, v)):
        assert (t == 0).all()


@every_alpha
def test_what_is_outside_the_support_does_not_matter(alpha):
    q, k, v = inputs(1, 40, 200, scale=3.0)
    outside = (weights(q @ k.mT, alpha) == 0).all(1).squeeze(0)  # keys that no query gives weight
    assert outside.any()
    z = sparse(q, k, v, alpha=alpha)
    far = v.detach().masked_fill(outside.unsqueeze(-1), 1e200)
    assert torch.equal(sparse(q, k, far, alpha=alpha), z)
    _, dk, dv = torch.autograd.grad(z.square().sum(), (q, k, v))
    assert (dk[:, outside] == 0).all()
    assert (dv[:, outside] == 0).all()


@every_alpha
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_nothing_to_do(alpha, shape):
    q, k, v = inputs(*shape, d=4, d_v=6)
    z = sparse(q, k, v, alpha=alpha)
    assert z.shape == (*shape[:2], 6)
    assert (z == 0).all()
    for t, x in zip(torch.autograd.grad(z.sum(), (q, k, v)), (q, k, v), strict=True):
        assert torch.equal(t, torch.zeros_like(x))


@every_alpha
@every_dtype
def test_huge_scores(alpha, dtype):
    theta = torch.zeros(1, 4, 200, dtype=dtype)
    theta[0, 0, [3, 150]] = 1e30  # a tie that a floor of 1e30 − 1 would not tell from its keys
    theta[0, 1, 7] = 1e30
    theta[0, 2] = -1e30
    theta[0, 3, 100:] = 1e30 * torch.arange(100, dtype=dtype)
    unit = torch.eye(200, dtype=dtype).unsqueeze(0)
    torch.testing.assert_close(
        sparse(theta, unit, unit, alpha=alpha).double(), weights(theta.double(), alpha), rtol=1e-6, atol=1e-6
    )


@every_alpha
@every_dtype
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 5, 170])
def test_a_broken_score_breaks_its_row_alone(alpha, dtype, bad, place):
    theta = torch.randn(1, 30, 180, dtype=dtype)
    broken = theta.clone()
    broken[0, 4, place] = bad
    broken.requires_grad_()
    unit = torch.eye(180, dtype=dtype).unsqueeze(0)
    unit = unit.masked_fill(unit == 0, 1e-30).requires_grad_()  # inf · 0 would break the row by itself
    fine = [i for i in range(30) if i != 4]
    z = sparse(broken, unit, unit.detach(), alpha=alpha)
    assert z[0, 4].isnan().all()
    torch.testing.assert_close(z[0, fine], weights(theta[0, fine], alpha), rtol=1e-5, atol=1e-5)
    dq, dk = torch.autograd.grad(z.sum(), (broken, unit))
    assert dq[0, 4].isnan().all()
    assert not dq[0, fine].isnan().any()
    assert dk.isnan().all()


@every_alpha
def test_minus_infinity_has_no_weight(alpha):
    """Scores that overflow: some in the first slice, all in the second."""
    theta, far = torch.randn(2, 40, dtype=torch.float64), torch.zeros(2, 40, dtype=torch.float64)
    far[0, ::3], far[1] = -10.0, -10.0
    k = torch.stack((theta, far), -1)  # (2, 40, 2)
    q = torch.tensor([1.0, 1e308], dtype=torch.float64).expand(2, 3, 2)
    unit = torch.eye(40, dtype=torch.float64).expand(2, 40, 40)
    want = weights(theta.masked_fill(far < 0, float("-inf")), alpha).unsqueeze(1).expand(2, 3, 40)
    torch.testing.assert_close(sparse(q, k, unit, alpha=alpha), want, rtol=1e-10, atol=1e-10)
    assert (want[1] == 0).all()


@every_alpha
@every_dtype
@pytest.mark.parametrize("room", [1, 4, 40])
def test_supports_without_room_are_found_again(monkeypatch, alpha, dtype, room):
    q, k, v = inputs(2, 120, 300, dtype=dtype)
    q = (
        q.detach() * torch.logspace(-3, 1, 120).to(dtype).unsqueeze(-1)
    ).requires_grad_()  # some flat, some peaked
    monkeypatch.setattr(operator, "ROOM", room)
    monkeypatch.setattr(operator, "LEAST", 0)
    sizes = sparse(q, k, v, alpha=alpha).grad_fn.saved_tensors[operator.TENSORS + 2]
    assert (sizes == AGAIN).any()
    assert (sizes > 0).any()
    check(q, k, v, alpha)
    check(q, k, v, alpha, hi=torch.arange(120) + 150, mask=torch.rand(120, 300) > 0.2)


@every_alpha
def test_memory_is_linear_in_the_keys(alpha):
    """Flat scores, where every key has weight: what is kept for backward still fits beside the inputs."""
    m = n = 9000
    q, k, v = inputs(1, m, n, d=4, d_v=4, scale=0.0, dtype=torch.float32)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        z = sparse(q, k, v, alpha=alpha)
    assert sum(kept) < 200 * (m + n)
    torch.testing.assert_close(z[0], v[0].mean(0).expand(m, 4), rtol=1e-4, atol=1e-5)


@every_alpha
@pytest.mark.parametrize("view", ["causal", "pairs", "some see nothing"])
def test_derivatives(alpha, view):
    q, k, v = inputs(2, 4, 7, d=3, d_v=2, scale=2.0)
    shown = VIEWS[view](2, 4, 7)
    assert torch.autograd.gradcheck(lambda *t: sparse(*t, alpha=alpha, **shown), (q, k, v))
    assert torch.autograd.gradgradcheck(lambda *t: sparse(*t, alpha=alpha, **shown), (q, k, v))


@every_alpha
def test_second_derivatives_where_query_keys_and_values_are_one(alpha):
    x = torch.randn(2, 9, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: sparse(x, x, x, alpha=alpha), (x,))
    assert torch.autograd.gradgradcheck(lambda x: sparse(x, x, x, alpha=alpha), (x,))


@every_alpha
def test_a_gradient_for_some_inputs_only(alpha):
    q, k, v = inputs(2, 20, 50)
    whole = torch.autograd.grad(sparse(q, k, v, alpha=alpha).sum(), (q, k, v))
    for i in range(3):
        some = [t if i == j else t.detach() for j, t in enumerate((q, k, v))]
        for again in (False, True):
            (part,) = torch.autograd.grad(sparse(*some, alpha=alpha).sum(), (some[i],), create_graph=again)
            torch.testing.assert_close(part, whole[i], rtol=1e-10, atol=1e-10)


@every_alpha
def test_inputs_in_any_layout(alpha):
    torch.manual_seed(0)
    q, k, v = (torch.randn(40, 3, 16, dtype=torch.float64).transpose(0, 1) for _ in range(3))
    v = torch.randn(3, 16, 80, dtype=torch.float64)[..., ::2].mT
    assert not any(t.is_contiguous() for t in (q, k, v))
    check(*(t.detach().requires_grad_() for t in (q, k, v)), alpha)
    z = sparse(*(t.requires_grad_() for t in (q, k, v)), alpha=alpha)
    broadcast = torch.ones(1, 1, 1, dtype=torch.float64).expand_as(z)
    for a, b in zip(
        torch.autograd.grad(z, (q, k, v), broadcast, retain_graph=True),
        torch.autograd.grad(z, (q, k, v), broadcast.contiguous()),
        strict=True,
    ):
        assert torch.equal(a, b)


def answers(q, k, v, alpha):
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    z = sparse(q, k, v, alpha=alpha)
    return z.detach(), *torch.autograd.grad(z.square().sum(), (q, k, v))


@every_alpha
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_threads_change_no_bit(alpha, batch):
    given = inputs(batch, 2100 if batch == 1 else 300, 256, dtype=torch.float32)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = answers(*given, alpha)
        torch.set_num_threads(4)
        together = answers(*given, alpha)
    finally:
        torch.set_num_threads(before)
    for a, b in zip(alone, together, strict=True):
        assert torch.equal(a, b)


def test_eight_callers_at_once():
    cases = [(*inputs(2, 150, 200, dtype=torch.float32, seed=i), ALPHAS[i % 2]) for i in range(16)]
    want = [answers(*case) for case in cases]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda case: answers(*case), cases * 4))
    for i, found in enumerate(got):
        for a, b in zip(found, want[i % 16], strict=True):
            assert torch.equal(a, b)
