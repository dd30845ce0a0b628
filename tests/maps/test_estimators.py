"""Each estimator's gradient against its formula, worked out by hand or by enumeration."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from regard.core.errors import ShapeError
from regard.losses import expected_loss
from regard.maps import Hard, argmax, softmax, sparsemax
from regard.maps.estimators import Exact, GumbelSoftmax, PerturbAndMap, Reinforce, Spigot, StraightThrough

INF = math.inf
SAMPLES = 100_000


def scores(*shape, seed=0):
    return 1.5 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawing(estimator, seed=0):
    return Hard(estimator, generator=torch.Generator().manual_seed(seed))


def noise(*shape, seed=0):
    return torch.empty(shape, dtype=torch.float64).exponential_(generator=torch.Generator().manual_seed(seed))


def pull(map, theta, slope):
    """Weights and gradient for a slope at the weights."""
    x = theta.clone().requires_grad_()
    p = map(x)
    p.backward(slope)
    return p.detach(), x.grad


def deviation(grads, exact):
    """How many standard errors the mean of grads (samples, n) is off, at its worst coordinate."""
    return ((grads.mean(0) - exact) / (grads.std(0) / len(grads) ** 0.5)).abs().max().item()


# Straight-through


def test_straight_through_acts_as_if_weights_were_scores():
    theta, slope = scores(20, 5), scores(20, 5, seed=1)
    theta[0, 2] = -INF
    p, grad = pull(drawing(StraightThrough()), theta, slope)
    assert torch.equal(p, argmax(theta - noise(20, 5).log()))
    assert torch.equal(grad, torch.where(theta == -INF, 0, slope))


@pytest.mark.parametrize("through", [softmax, sparsemax])
def test_straight_through_a_map_has_its_gradient(through):
    theta, slope = scores(20, 5), scores(20, 5, seed=1)
    x = theta.clone().requires_grad_()
    through(x).backward(slope)
    p, grad = pull(drawing(StraightThrough(through)), theta, slope)
    torch.testing.assert_close(grad, x.grad)
    assert ((p == 0) | (p == 1)).all()  # exactly, not p + (s − p)


def test_straight_through_without_a_draw_takes_the_best():
    theta, slope = scores(20, 5), scores(20, 5, seed=1)
    p, grad = pull(Hard(StraightThrough(draw=False)), theta, slope)
    assert torch.equal(p, argmax(theta))
    assert torch.equal(grad, slope)


# Gumbel-softmax


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_is_the_softmax_of_noisy_scores(hard):
    theta, slope, e = scores(20, 5), scores(20, 5, seed=1), noise(20, 5)
    theta[0, 2] = -INF
    x = theta.clone().requires_grad_()
    relaxed = ((x - e.log()) / 0.7).softmax(-1)
    relaxed.backward(slope)
    p, grad = pull(drawing(GumbelSoftmax(0.7, hard=hard)), theta, slope)
    torch.testing.assert_close(p, argmax(relaxed.detach()) if hard else relaxed.detach())
    torch.testing.assert_close(grad, x.grad)


def test_gumbel_softmax_hardens_as_it_cools():
    map, theta = drawing(GumbelSoftmax(1.0)), scores(200, 5)
    warm = map(theta).amax(-1).mean()
    map.estimator.temperature = 1e-3
    assert warm < 0.9 < 0.99 < map(theta).amax(-1).mean()


def test_gumbel_softmax_second_derivative():
    theta = scores(3, 4).requires_grad_()

    def f(x):
        return drawing(GumbelSoftmax(0.7))(x)

    assert torch.autograd.gradcheck(f, theta)
    assert torch.autograd.gradgradcheck(f, theta)


# Perturb-and-MAP


def test_perturb_and_map_follows_its_formula():
    theta, slope = scores(4, 5), scores(4, 5, seed=1)
    theta[1, 3] = -INF
    scale, e = 0.5, noise(3, 4, 5)
    p, grad = pull(drawing(PerturbAndMap(3, scale=scale)), theta, slope)
    mean, want = torch.zeros(4, 5).double(), torch.zeros(4, 5).double()
    for b in range(4):
        for k in range(3):
            s = argmax(theta[b] + scale * -e[k, b].log())
            mean[b] += s / 3
            want[b] += (1 - e[k, b]) * ((s - argmax(theta[b])) @ slope[b]) / (3 * scale)
    torch.testing.assert_close(p, mean)
    torch.testing.assert_close(grad, torch.where(theta == -INF, 0, want))


@pytest.mark.parametrize(("samples", "scale"), [(1, 1.0), (4, 1.0), (1, 0.5)])
def test_perturb_and_map_is_unbiased_for_the_perturbed_mean(samples, scale):
    """Gumbel noise of size ε on one key of n: the perturbed mean is softmax(θ/ε)."""
    theta, slope = scores(5), scores(5, seed=1)
    x = theta.clone().requires_grad_()
    (x / scale).softmax(-1).backward(slope)
    rows = SAMPLES // samples
    p, grads = pull(
        drawing(PerturbAndMap(samples, scale=scale)), theta.expand(rows, 5), slope.expand(rows, 5)
    )
    assert deviation(grads, x.grad) < 3
    assert deviation(p, (theta / scale).softmax(-1)) < 4


# SPIGOT


@given(
    theta=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    slope=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    step=st.floats(0.1, 3),
    hidden=st.integers(0, 3),
)
def test_spigot_is_a_step_projected_onto_the_simplex(theta, slope, step, hidden):
    row, g = torch.tensor(theta, dtype=torch.float64), torch.tensor(slope, dtype=torch.float64)
    row[hidden] = -INF
    p, grad = pull(Hard(Spigot(step)), row, g)
    best = [float(k == max((j for j in range(4) if j != hidden), key=lambda j: theta[j])) for k in range(4)]
    assert p.tolist() == best
    seen = [k for k in range(4) if k != hidden]
    reached = reference.sparsemax([best[k] - step * slope[k] for k in seen])
    want = [0.0] * 4
    for k, r in zip(seen, reached, strict=True):
        want[k] = best[k] - r
    assert grad.tolist() == pytest.approx(want, abs=1e-9)


def test_spigot_inside_the_simplex_is_straight_through():
    """Where the step stays inside, in the directions the simplex has: s − (s − ηg) = ηg."""
    theta, slope = torch.tensor([2.0, 0, 0]), torch.tensor([0.2, -0.1, -0.1])
    assert pull(Hard(Spigot(1.0)), theta, slope)[1].tolist() == pytest.approx(slope.tolist())
    _, wall = pull(Hard(Spigot(1.0)), theta, torch.tensor([-5.0, 1, 1]))
    assert wall.tolist() == [0, 0, 0]  # it is at that corner already


# REINFORCE


def by_hand(theta, keys, losses, baseline=0.0, weight=1.0, entropy=0.0):
    """λᵣ(loss + b)∇log p − λₑ∇H for every example (b, n), written out: ∇log p = s − p, ∇H = −p(log p + H)."""
    p = theta.softmax(-1)
    s = torch.nn.functional.one_hot(keys, theta.shape[-1])
    h = -(p * p.log()).sum(-1, keepdim=True)
    return weight * (losses + baseline)[:, None] * (s - p) + entropy * p * (p.log() + h)


def test_reinforce_follows_its_formula_and_the_baseline_is_the_one_before():
    """Correction 21: λᵣ(r − b)∇log p, with b; and b from before this batch."""
    estimator = Reinforce(0.9, weight=0.5, entropy=0.2)
    map, reward, average = drawing(estimator), scores(5, seed=3), None
    for step in range(4):
        x = scores(8, 5, seed=step).requires_grad_()
        p = map(x)
        losses = -(p * reward).sum(-1)
        expected_loss(losses).backward()
        before = 0.0 if average is None else average
        want = by_hand(x.detach(), p.argmax(-1), losses.detach(), before, 0.5, 0.2)
        torch.testing.assert_close(8 * x.grad, want, rtol=1e-6, atol=1e-6)
        mean = -losses.mean().item()
        average = mean if average is None else 0.9 * average + 0.1 * mean
        assert estimator.average.item() == pytest.approx(average, rel=1e-5)
    assert estimator.batches == 4


def test_without_a_baseline_nothing_is_subtracted_and_nothing_kept():
    estimator = Reinforce(None)
    x = scores(8, 5).requires_grad_()
    p = drawing(estimator)(x)
    losses = (p * scores(5, seed=3)).sum(-1)
    expected_loss(losses).backward()
    torch.testing.assert_close(8 * x.grad, by_hand(x.detach(), p.argmax(-1), losses.detach()))
    assert not estimator.state_dict()


def test_the_average_is_saved_and_resumed():
    def step(estimator, seed):
        x = scores(6, 5, seed=seed).requires_grad_()
        expected_loss((drawing(estimator, seed)(x) * scores(5, seed=9)).sum(-1)).backward()
        return x.grad

    one = Reinforce()
    step(one, 1)
    two = Reinforce()
    two.load_state_dict(one.state_dict())
    assert torch.equal(step(one, 2), step(two, 2))
    assert not torch.equal(step(Reinforce(), 3), step(two, 3))


def test_a_loss_that_is_not_finite_leaves_the_average_alone():
    estimator = Reinforce()
    estimator.observe(torch.tensor(-2.0))
    estimator.observe(torch.tensor(-INF))
    estimator.observe(torch.tensor(math.nan))
    assert (estimator.average.item(), estimator.batches.item()) == (-2.0, 1)


def test_log_p_is_summed_over_heads_queries_and_calls():
    map = drawing(Reinforce(None))
    x = scores(3, 2, 4, 5).requires_grad_()
    y = scores(3, 6, seed=1).requires_grad_()
    p, q = map(x), map(y)
    losses = (p * scores(3, 2, 4, 5, seed=2)).sum((1, 2, 3)) + (q * scores(6, seed=3)).sum(-1)
    expected_loss(losses).backward()
    with torch.no_grad():
        want = losses[:, None, None, None] * (p - x.softmax(-1))
        torch.testing.assert_close(3 * x.grad, want)
        torch.testing.assert_close(3 * y.grad, losses[:, None] * (q - y.softmax(-1)))


def test_swapped_examples_are_soft_and_differentiated():
    map, reward = drawing(Reinforce(None, swap=0.5)), scores(5, seed=3)
    x = scores(2000, 2, 5).requires_grad_()
    p = map(x)
    soft = (p == x.softmax(-1)).flatten(1).all(-1)  # all rows of an example together
    one = ((p == 0) | (p == 1)).flatten(1).all(-1)
    assert (soft ^ one).all()
    assert abs(soft.double().mean() - 0.5) < 0.05
    losses = (p * reward).sum((1, 2)).square()
    expected_loss(losses).backward()
    y = x.detach()[soft].requires_grad_()
    (y.softmax(-1) * reward).sum((1, 2)).square().sum().backward()
    torch.testing.assert_close(2000 * x.grad[soft], y.grad)
    rest = losses.detach()[one][:, None, None] * (p - x.softmax(-1)).detach()[one]
    torch.testing.assert_close(2000 * x.grad[one], rest)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Reinforce(1.0), "baseline must be at least 0 and less than 1; got 1.0"),
        (lambda: Reinforce(weight=-1), "weight must be at least 0 and finite; got -1"),
        (lambda: Reinforce(entropy=math.nan), "entropy must be at least 0 and finite; got nan"),
        (lambda: Reinforce(swap=1.5), "swap must be at least 0 and less than 1; got 1.5"),
        (lambda: GumbelSoftmax(0), "temperature must be above 0 and finite; got 0"),
        (lambda: PerturbAndMap(0), "samples must be at least 1; got 0"),
        (lambda: PerturbAndMap(scale=0), "scale must be above 0 and finite; got 0"),
        (lambda: Spigot(-1), "step must be above 0 and finite; got -1"),
        (lambda: Exact(0), "paths must be at least 1; got 0"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_straight_through_needs_a_map():
    with pytest.raises(TypeError, match="through must be a map or None; got str"):
        StraightThrough("softmax")


# Exact marginalisation


def test_exact_is_the_sum_over_all_choices():
    theta, values, map = scores(2, 2, 3), scores(2, 3, 4, seed=1), Hard(Exact())
    x = theta.clone().requires_grad_()
    loss = expected_loss(lambda: (map(x) @ values).sin().sum((1, 2)).square())
    loss.backward()
    y = theta.clone().requires_grad_()
    p, want = y.softmax(-1), 0.0
    for i, j in product(range(3), repeat=2):
        losses = torch.stack([values[:, i], values[:, j]], 1).sin().sum((1, 2)).square()
        want = want + (p[:, 0, i] * p[:, 1, j] * losses).mean()
    want.backward()
    torch.testing.assert_close(loss, want)
    torch.testing.assert_close(x.grad, y.grad)


def test_a_draw_may_depend_on_an_earlier_one():
    theta, next_theta, map = scores(2, 3), scores(3, 4, seed=1), Hard(Exact())
    x, w = theta.clone().requires_grad_(), next_theta.clone().requires_grad_()
    reward = scores(3, 4, seed=2)
    runs = []

    def losses():
        first = map(x)  # (2, 3)
        second = map(first @ w)  # (2, 4): which keys are likely depends on the first
        runs.append(1)
        return (first @ reward * second).sum(-1)

    loss = expected_loss(losses)
    loss.backward()
    assert len(runs) == 12
    y, v = theta.clone().requires_grad_(), next_theta.clone().requires_grad_()
    want = torch.einsum("bi,ij,ij->b", y.softmax(-1), v.softmax(-1), reward).mean()
    want.backward()
    torch.testing.assert_close(loss, want)
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(w.grad, v.grad)


def test_the_number_of_draws_may_depend_on_a_draw():
    theta, map = scores(1, 2), Hard(Exact())

    def losses():
        first = map(theta)
        return first[:, 0] * 1.0 if first[0, 0] else 10 * map(scores(1, 3, seed=1))[:, 2]

    p, q = theta.softmax(-1)[0], scores(1, 3, seed=1).softmax(-1)[0]
    assert expected_loss(losses).item() == pytest.approx((p[0] + 10 * p[1] * q[2]).item())


def test_exact_looks_at_no_hidden_key_and_counts_rows_of_nothing_once():
    theta = scores(3, 2, 3)
    theta[0, 0, 1], theta[1, 1, :2], theta[2, 0], theta[1, 0, 0] = -INF, -INF, -INF, -INF
    map, met = Hard(Exact()), []
    x = theta.clone().requires_grad_()

    def losses():
        p = map(x)
        met.append(p)
        assert (p[theta == -INF] == 0).all()
        return 1 + (p * torch.arange(3.0)).sum((1, 2))

    loss = expected_loss(losses)
    loss.backward()
    weights = torch.where(theta == -INF, 0, softmax(theta))
    want = 1 + (weights * torch.arange(3.0)).sum((1, 2))
    assert loss.item() == pytest.approx(want.mean().item())
    assert x.grad.isfinite().all()
    assert (x.grad[theta == -INF] == 0).all()
    y = torch.where(theta == -INF, -INF, theta).requires_grad_()
    (softmax(y) * torch.arange(3.0)).sum((1, 2)).mean().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_keys_hidden_everywhere_cost_no_runs():
    theta = scores(4, 3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -INF)  # causal: 1 · 2 · 3 choices
    runs, map = [], Hard(Exact(6))

    def losses():
        runs.append(1)
        return map(theta).sum((1, 2))

    assert expected_loss(losses).item() == pytest.approx(3)
    assert len(runs) == 6


def test_exact_shows_a_nan():
    theta = scores(2, 3)
    theta[0, 1] = math.nan
    map = Hard(Exact())
    assert expected_loss(lambda: map(theta).sum(-1)).isnan()


def test_too_many_choices_are_refused_before_they_are_tried():
    runs, map = [], Hard(Exact())

    def losses():
        runs.append(1)
        return map(scores(2, 8, 10)).sum((1, 2))

    with pytest.raises(ValueError, match="run the model 100,000,000 times or more; it may 1,000 times"):
        expected_loss(losses)
    assert len(runs) == 1
    with pytest.raises(ValueError, match="run the model 1,024 times or more"):
        expected_loss(lambda: sum(map(scores(2, 2)).sum(-1) for _ in range(12)))


def test_a_model_that_changes_its_mind_is_refused():
    sizes, map = iter((3, 2, 4)), Hard(Exact())
    with pytest.raises(RuntimeError, match="with the same keys chosen, the model came to other choices"):
        expected_loss(lambda: map(scores(2, next(sizes))).sum(-1))


def test_exact_wants_one_loss_for_each_example():
    with pytest.raises(ShapeError, match=r"\(3,\), one for each example of the scores; got \(2,\)"):
        expected_loss(lambda: Hard(Exact())(scores(3, 2))[:2].sum(-1))
    with pytest.raises(ShapeError, match=r"losses must be \(3,\)"):
        expected_loss(lambda: Hard(Exact())(scores(2, 2)).sum(-1) + 0 * Hard(Exact())(scores(3, 2))[:2, 0])


def test_exact_under_no_grad_is_the_expected_value():
    theta, reward, map = scores(4, 3), scores(3, seed=1), Hard(Exact())
    with torch.no_grad():
        value = expected_loss(lambda: (map(theta) * reward).sum(-1))
    assert value.item() == pytest.approx((theta.softmax(-1) @ reward).mean().item())


def test_reinforce_inside_exact_is_unbiased():
    theta, chances, reward = scores(3), scores(3, 4, seed=1), scores(3, 4, seed=2)
    exact, drawn = Hard(Exact()), drawing(Reinforce(None))
    x = theta.expand(SAMPLES, 3).clone().requires_grad_()
    y = chances.clone().requires_grad_()

    def losses():
        first = exact(x)
        return (first @ reward * drawn(first @ y)).sum(-1)

    expected_loss(losses).backward()
    a, b = theta.clone().requires_grad_(), chances.clone().requires_grad_()
    torch.einsum("i,ij,ij->", a.softmax(-1), b.softmax(-1), reward).backward()
    assert deviation(SAMPLES * x.grad, a.grad) < 3
    torch.testing.assert_close(y.grad, b.grad, rtol=0.1, atol=0.02)
