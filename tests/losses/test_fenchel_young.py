"""Fenchel–Young losses: their definition, their gradient p − y, their margin."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, vmap

from regard.core.errors import DtypeError, ShapeError
from regard.losses import entmax_loss, softmax_loss, sparsemax_loss
from regard.maps.entmax import entmax

INF = float("inf")
ALPHAS = [1.0, 1.1, 1.3, 1.5, 2.0, 3.0]
LOSSES = {"softmax": (softmax_loss, 1.0), "sparsemax": (sparsemax_loss, 2.0)}
LOSSES |= {f"entmax {alpha}": (partial(entmax_loss, alpha=alpha), alpha) for alpha in ALPHAS}
every_loss = pytest.mark.parametrize("name", LOSSES)


def negentropy(p, alpha):
    """Ω(p) = −H_α(p), straight from the formula."""
    return torch.xlogy(p, p).sum(-1) if alpha == 1 else (p**alpha - p).sum(-1) / (alpha * (alpha - 1))


def distributions(*shape):
    return torch.randn(*shape, dtype=torch.float64).mul(2).softmax(-1)


@every_loss
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_agrees_with_its_definition(name, scale):
    torch.manual_seed(0)
    loss, alpha = LOSSES[name]
    for theta, y in zip(torch.randn(5, 4, dtype=torch.float64) * scale, distributions(5, 4), strict=True):

        def gap(p, theta=theta):
            p = torch.from_numpy(p)
            return (negentropy(p, alpha) - p @ theta).item()

        sums = {"type": "eq", "fun": lambda p: p.sum() - 1}
        found = minimize(
            gap, [0.25] * 4, bounds=[(0, 1)] * 4, constraints=sums, tol=1e-13, options={"maxiter": 999}
        )
        want = -found.fun + negentropy(y, alpha) - theta @ y
        assert loss(theta, y).item() == pytest.approx(want.item(), abs=1e-6)


@every_loss
def test_a_class_is_the_distribution_with_all_weight_on_it(name):
    loss, _ = LOSSES[name]
    scores, classes = torch.randn(3, 4, 6, dtype=torch.float64), torch.randint(0, 6, (3, 4))
    y = F.one_hot(classes, 6).double()
    torch.testing.assert_close(loss(scores, classes, reduction="none"), loss(scores, y, reduction="none"))


@every_loss
@given(theta=st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=6), dtype=st.sampled_from([4, 8]))
def test_is_at_least_0(name, theta, dtype):
    loss, alpha = LOSSES[name]
    scores = torch.tensor(theta, dtype={4: torch.float32, 8: torch.float64}[dtype])
    assert loss(scores, torch.tensor(0)) >= 0
    assert loss(scores, entmax(scores, alpha)) >= 0


@every_loss
def test_is_0_for_the_weights_themselves_and_for_no_others(name):
    loss, alpha = LOSSES[name]
    scores, y = torch.randn(50, 6, dtype=torch.float64), distributions(50, 6)
    p = entmax(scores, alpha)
    torch.testing.assert_close(loss(scores, p, reduction="none"), torch.zeros(50, dtype=torch.float64))
    distance = (p - y).pow(2).sum(-1)
    assert (loss(scores, y, reduction="none") > distance / 10).all()


@every_loss
def test_the_gradient_is_weights_minus_target(name):
    loss, alpha = LOSSES[name]
    scores = torch.randn(9, 6, dtype=torch.float64, requires_grad=True)
    p = entmax(scores.detach(), alpha)
    for target in (torch.randint(0, 6, (9,)), distributions(9, 6)):
        y = target if target.is_floating_point() else F.one_hot(target, 6)
        (gradient,) = torch.autograd.grad(loss(scores, target, reduction="sum"), scores)
        torch.testing.assert_close(gradient, p - y, rtol=0, atol=1e-15)


@every_loss
def test_the_hessian_is_the_jacobian_of_the_map(name):
    loss, alpha = LOSSES[name]
    for theta in torch.randn(3, 5, dtype=torch.float64):
        J = torch.autograd.functional.jacobian(lambda x: entmax(x, alpha), theta)
        for second in (hessian, lambda f: jacrev(jacrev(f))):
            torch.testing.assert_close(second(lambda x: loss(x, torch.tensor(2)))(theta), J)


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_derivatives(name, reduction):
    torch.manual_seed(1)
    loss = partial(LOSSES[name][0], reduction=reduction)
    scores = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    classes = torch.tensor([0, 3, -100, 1])
    assert gradcheck(lambda x: loss(x, classes), scores, check_forward_ad=True)
    assert gradgradcheck(lambda x: loss(x, classes), scores, check_fwd_over_rev=True)
    assert gradcheck(lambda x, y: loss(x, y.softmax(-1)), (scores, logits))
    assert gradgradcheck(lambda x, y: loss(x, y.softmax(-1)), (scores, logits))


@every_loss
def test_transforms_and_the_compiler(name):
    loss = LOSSES[name][0]
    scores, classes = torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 3, -100, 1])
    each = loss(scores, classes, reduction="none")
    torch.testing.assert_close(vmap(loss)(scores, classes), each)
    wanted = torch.autograd.functional.jacobian(lambda x: loss(x, classes, reduction="sum"), scores)
    torch.testing.assert_close(vmap(grad(loss))(scores, classes), wanted)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    scores.requires_grad_()
    (got,) = torch.autograd.grad(compiled(scores, classes, reduction="sum"), scores)
    torch.testing.assert_close(got, wanted)


@every_loss
def test_what_torch_would_answer_with_zeros_is_refused(name):
    with pytest.raises(NotImplementedError, match=r"Use torch.func.hessian or jacfwd\(jacrev\(...\)\)"):
        jacfwd(jacfwd(lambda x: LOSSES[name][0](x, torch.tensor(2))))(torch.randn(5))


def test_softmax_is_cross_entropy():
    scores = torch.randn(7, 4, 11)
    classes = torch.randint(0, 11, (7, 4))
    classes[2, 3] = classes[5] = -100
    flat = scores.flatten(0, 1), classes.flatten()
    for reduction in ("mean", "sum", "none"):
        want = F.cross_entropy(*flat, reduction=reduction)
        torch.testing.assert_close(softmax_loss(*flat, reduction=reduction), want)
    assert softmax_loss(scores, classes, reduction="none").shape == (7, 4)
    y = distributions(7, 11).float()
    torch.testing.assert_close(
        softmax_loss(scores[:, 0], y), F.kl_div(scores[:, 0].log_softmax(-1), y, reduction="batchmean")
    )
    torch.testing.assert_close(
        softmax_loss(*flat), entmax_loss(*flat, alpha=1.0 + 1e-7), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0, 3.0])
def test_the_margin(alpha):
    scores = torch.zeros(3, 5, dtype=torch.float64)
    scores[:, 2] = 1 / (alpha - 1) + torch.tensor([-0.3, 0, 5])
    loss = entmax_loss(scores, torch.tensor([2, 2, 2]), alpha, reduction="none")
    assert loss[0] > 0
    assert loss[1:].tolist() == pytest.approx([0, 0], abs=1e-15)
    assert (softmax_loss(scores, torch.tensor([2, 2, 2]), reduction="none") > 1e-4).all()


@every_loss
def test_ignored_rows(name):
    loss = LOSSES[name][0]
    scores = torch.randn(4, 6, requires_grad=True)
    classes = torch.tensor([1, 9, 5, 9])
    each = loss(scores, classes, reduction="none", ignore_index=9)
    assert each[[1, 3]].tolist() == [0, 0]
    torch.testing.assert_close(loss(scores, classes, ignore_index=9), each[[0, 2]].mean())
    (gradient,) = torch.autograd.grad(loss(scores, classes, ignore_index=9), scores)
    assert gradient[[1, 3]].equal(torch.zeros(2, 6))
    assert loss(scores, torch.full((4,), -100)) == 0


@every_loss
def test_hidden_classes(name):
    loss = LOSSES[name][0]
    scores = torch.tensor([[1.0, 2.0, -INF], [0.5, -INF, -INF], [-INF] * 3], requires_grad=True)
    classes = torch.tensor([0, 0, -100])
    each = loss(scores, classes, reduction="none")
    torch.testing.assert_close(each[0], loss(scores[0, :2], torch.tensor(0)))
    assert each[1:].tolist() == [0, 0]
    (gradient,) = torch.autograd.grad(each.sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient[scores == -INF] == 0).all()
    assert loss(scores[0], torch.tensor(2)) == INF
    soft = torch.tensor([0.25, 0.75, 0.0])
    torch.testing.assert_close(loss(scores[0], soft), loss(scores[0, :2], soft[:2]))


@every_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_numbers_and_large_scores(name, dtype):
    loss = LOSSES[name][0]
    scores, classes = torch.randn(5, 8).to(dtype), torch.randint(0, 8, (5,))
    assert loss(scores, classes).dtype == dtype
    torch.testing.assert_close(loss(scores, classes), loss(scores.double(), classes).to(dtype))
    far = torch.tensor([1e6, 1e6 + 0.5, 0.0])
    near = torch.tensor([0.0, 0.5, -1e6], dtype=torch.float64)
    assert loss(far, torch.tensor(0)).item() == pytest.approx(loss(near, torch.tensor(0)).item(), rel=1e-5)


@every_loss
def test_no_rows(name):
    loss = LOSSES[name][0]
    assert loss(torch.zeros(0, 5), torch.zeros(0, dtype=torch.long)) == 0
    assert loss(torch.zeros(0, 5), torch.zeros(0, 5), reduction="none").shape == (0,)


def test_bad_input_is_refused_by_name():
    scores, classes = torch.zeros(2, 3), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r'reduction must be "mean", "sum" or "none"; got \'average\''):
        softmax_loss(scores, classes, reduction="average")
    with pytest.raises(
        ShapeError, match=r"target must be classes \(2,\) or distributions \(2, 3\).*int64 \(3,\)"
    ):
        softmax_loss(scores, torch.tensor([0, 1, 2]))
    with pytest.raises(ShapeError, match=r"got torch.float32 \(2,\)"):
        softmax_loss(scores, classes.float())
    with pytest.raises(DtypeError, match=r"target must be classes .* got torch.bool"):
        softmax_loss(scores, classes.bool())
    with pytest.raises(ValueError, match=r"target must be classes from 0 to 2, or ignore_index=-100; got 3"):
        softmax_loss(scores, torch.tensor([0, 3]))
    with pytest.raises(DtypeError, match=r"scores must be .* got torch.int64"):
        softmax_loss(classes, classes[0])
    with pytest.raises(ValueError, match=r"alpha must be at least 1; got 0.5"):
        entmax_loss(scores, classes, 0.5)
    with pytest.raises(TypeError, match=r"alpha must be a number; got Tensor"):
        entmax_loss(scores, classes, torch.tensor(1.5))
