"""Continuous softmax and sparsemax: from scores by way of a density, on sequences and on images."""

import math

import pytest
import torch

import reference
from regard import attend
from regard.continuous import continuous_weights
from regard.core.errors import ShapeError
from regard.maps import ContinuousSoftmax, ContinuousSparsemax, continuous_softmax, continuous_sparsemax

INF, NAN = float("inf"), float("nan")
every_map = pytest.mark.parametrize("map", [continuous_softmax, continuous_sparsemax])
every_class = pytest.mark.parametrize("kind", [ContinuousSoftmax, ContinuousSparsemax])


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def peak(places, at, sharpness=200.0):
    """Scores (k,) that are highest where places (k,) or (k, 2) are near `at`."""
    distance = (places - torch.as_tensor(at)).square()
    return -sharpness * (distance if distance.dim() == 1 else distance.sum(-1))


def grid(h, w):
    y, x = ((torch.arange(size, dtype=torch.float64) + 0.5) / size for size in (h, w))
    return torch.cartesian_prod(y, x)


@every_map
@pytest.mark.parametrize("n", [1, 5, 33, 200])
@pytest.mark.parametrize("settings", [{"basis": 8}, {"ridge": 1e-3}, {"basis": 60, "ridge": 1.0}])
def test_settings(map, n, settings):
    theta = 3 * normal(n, seed=n)
    want = getattr(reference, map.__name__)(theta.tolist(), **settings)
    assert map(theta, **settings).tolist() == pytest.approx(want, abs=1e-9)


@every_class
@pytest.mark.parametrize("shape", [None, (4, 6)])
def test_the_density_has_the_moments_of_the_softmax(kind, shape):
    scores = 2 * normal(3, 24)
    density = kind(shape=shape).density(scores)
    p = scores.softmax(-1)
    if shape is None:
        t = (torch.arange(24) + 0.5) / 24
        torch.testing.assert_close(density.mean, p @ t.double())
        spread = (p * (t - density.mean[:, None]).square()).sum(-1)
        torch.testing.assert_close(density.variance, spread + 1 / (12 * 24**2))
    else:
        t = grid(*shape)
        torch.testing.assert_close(density.mean, p @ t)
        d = t - density.mean[:, None]
        floor = torch.tensor([1 / (12 * 4**2), 1 / (12 * 6**2)]).double().diag()
        torch.testing.assert_close(density.covariance, torch.einsum("bn,bni,bnj->bij", p, d, d) + floor)
    weights = continuous_weights(density, shape or 24)
    torch.testing.assert_close(kind(shape=shape)(scores), weights)


@every_class
def test_the_mean_follows_a_moved_peak(kind):
    t = ((torch.arange(100) + 0.5) / 100).double()
    places = torch.tensor([0.2, 0.5, 0.7])
    scores = torch.stack([peak(t, at) for at in places.tolist()])
    torch.testing.assert_close(kind().density(scores).mean, places.double(), rtol=0, atol=1e-3)
    read = kind()(scores) @ torch.stack([t, (6 * t).sin()], -1)
    torch.testing.assert_close(read[:, 0], places.double(), rtol=0, atol=0.01)
    torch.testing.assert_close(read[:, 1], (6 * places.double()).sin(), rtol=0, atol=0.06)


@every_class
def test_the_mean_follows_a_moved_peak_in_an_image(kind):
    t = grid(12, 20)
    places = torch.tensor([[0.3, 0.6], [0.5, 0.5], [0.7, 0.2]]).double()
    map = kind(shape=(12, 20))
    scores = torch.stack([peak(t, at) for at in places])
    density = map.density(scores)
    torch.testing.assert_close(density.mean, places, rtol=0, atol=5e-3)
    assert density.variance.max() < 0.01
    torch.testing.assert_close(map(scores) @ t, places, rtol=0, atol=0.02)


def test_the_density_of_sparsemax_has_an_end():
    scores = peak(((torch.arange(50) + 0.5) / 50).double(), 0.4)
    t = torch.linspace(0, 1, 201).double()
    assert (ContinuousSparsemax().density(scores).pdf(t) == 0).sum() > 100
    assert (ContinuousSoftmax().density(scores).pdf(t) > 0).all()


@every_class
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_density_of_any_dtype(kind, dtype):
    density = kind().density(normal(2, 9).to(dtype))
    wanted = torch.float64 if dtype == torch.float64 else torch.float32
    assert density.mean.dtype == density.variance.dtype == wanted


@every_map
def test_hidden_cells_of_an_image_leave_the_others_in_place(map):
    """Each row alone has the weights that it has among others, and the mean is over true places."""
    scores = normal(5, 12)
    hidden = torch.rand(5, 12, generator=torch.Generator().manual_seed(0)) < 0.4
    hidden[1], hidden[2] = hidden[0], True
    scores = scores.masked_fill(hidden, -INF)
    together = map(scores, shape=(3, 4), basis=4)
    assert (together[hidden] == 0).all()
    assert (together[~hidden] != 0).all()
    for row, alone in zip(together, scores, strict=True):
        torch.testing.assert_close(row, map(alone, shape=(3, 4), basis=4))
    kind = {continuous_softmax: ContinuousSoftmax, continuous_sparsemax: ContinuousSparsemax}[map]
    mean = kind(shape=(3, 4)).density(scores).mean
    torch.testing.assert_close(mean[0], scores[0].softmax(-1) @ grid(3, 4))


@every_map
@pytest.mark.parametrize("n", [1000, 5000])
def test_a_sharp_row_among_flat_ones(map, n):
    """One density is far narrower than a basis function, the other far wider, in one batch."""
    scores = torch.zeros(2, n, dtype=torch.float64)
    scores[0, n // 3] = 60.0
    p = map(scores)
    for row, alone in zip(p, scores, strict=True):
        torch.testing.assert_close(row, map(alone))
    assert p[0].sum().item() == pytest.approx(1, abs=0.01)
    assert abs(p[0].argmax().item() - n // 3) < n / 60


@every_class
def test_a_module_keeps_its_settings(kind):
    map = kind(basis=7, ridge=0.5, shape=(3, 4))
    scores = normal(2, 12)
    function = map.facts.function
    assert map(scores).equal(function(scores, basis=7, ridge=0.5, shape=(3, 4)))
    assert repr(map) == f"{kind.__name__}(basis=7, ridge=0.5, shape=(3, 4))"
    assert repr(kind()) == f"{kind.__name__}(basis=32, ridge=0.1)"
    assert kind()(scores).equal(function(scores))
    assert not list(map.parameters())


def test_large_attention_goes_by_blocks():
    q, k = normal(1, 700, 4, dtype=torch.float32), normal(1, 6100, 4, seed=1, dtype=torch.float32)
    z = attend(q, k, k, map="continuous_softmax").context
    few = attend(q[:, :3], k, k, map="continuous_softmax").context
    torch.testing.assert_close(z[:, :3], few)


@every_map
def test_bad_input_is_named(map):
    with pytest.raises(ShapeError, match=r"scores must be .* n = h·w = 6 for shape=\(2, 3\); got \(2, 5\)"):
        map(torch.zeros(2, 5), shape=(2, 3))
    with pytest.raises(ShapeError, match=r"shape must be \(h, w\), two whole numbers.*; got \(6,\)"):
        map(torch.zeros(2, 6), shape=(6,))
    with pytest.raises(ShapeError, match=r"shape must be \(h, w\), two whole numbers.*; got 6"):
        map(torch.zeros(2, 6), shape=6)
    with pytest.raises(ValueError, match="ridge must be above 0 and finite; got 0"):
        map(torch.zeros(2, 6), ridge=0.0)
    with pytest.raises(ValueError, match="basis must be a number of functions per axis.*; got -3"):
        map(torch.zeros(2, 6), basis=-3)


@every_map
def test_an_image_of_no_cells(map):
    assert map(torch.zeros(3, 0), shape=(0, 7)).shape == (3, 0)


@every_class
def test_bad_settings_are_named_at_once(kind):
    with pytest.raises(ShapeError, match="shape must be"):
        kind(shape=(2, -3))
    with pytest.raises(ValueError, match="ridge must be above 0"):
        kind(ridge=-1.0)
    with pytest.raises(ValueError, match="basis must be"):
        kind(basis=0)


def test_weights_can_be_negative_and_need_not_sum_to_1():
    p = continuous_softmax(torch.tensor([0.0, 0.0, 9.0, 0.0, 0.0, 0.0]))
    assert p.min() < 0
    assert 0.8 < p.sum() < 1
    assert not math.isclose(p.sum().item(), 1, abs_tol=1e-3)
