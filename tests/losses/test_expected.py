"""The expected loss: the mean, with a gradient that finds every draw; what forgets it raises."""

import gc
import math
import weakref

import pytest
import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import regard
from regard.core.errors import DtypeError, ShapeError
from regard.losses import expected_loss
from regard.losses.expected import _draws
from regard.maps import Hard
from regard.maps.estimators import Exact, Reinforce, StraightThrough

SAMPLES = 100_000


def scores(*shape, seed=0):
    return 1.5 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawing(estimator=None, seed=0):
    return Hard(estimator or Reinforce(None), generator=torch.Generator().manual_seed(seed))


class Classifier(nn.Module):
    """One query, four classes."""

    def __init__(self, map, width=6):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, width))
        self.attention = regard.Attention(map=map)
        self.read = nn.Linear(width, 4)

    def forward(self, x):
        query = self.query.expand(len(x), 1, -1)
        return self.read(self.attention(query, x).context.squeeze(1))


@pytest.mark.parametrize(
    "map", ["softmax", "sparsemax", Hard(Reinforce()), Hard(StraightThrough())], ids=["0", "1", "2", "3"]
)
def test_one_line_for_every_map(map):
    torch.manual_seed(0)
    model, x, y = Classifier(map), torch.randn(5, 7, 6), torch.randint(4, (5,))
    losses = F.cross_entropy(model(x), y, reduction="none")
    loss = expected_loss(losses)
    assert loss.item() == losses.mean().item()
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert (model.query.grad != 0).any()


def test_without_draws_it_is_the_mean():
    losses = scores(5).requires_grad_()
    loss = expected_loss(losses)
    assert loss.grad_fn.name() == "MeanBackward0"
    assert torch.equal(loss, losses.mean())
    assert torch.equal(expected_loss(lambda: losses), losses.mean())
    assert expected_loss(scores(3)).item() == pytest.approx(scores(3).mean().item())


def test_values_and_readout_have_the_gradient_of_the_draw_they_saw():
    theta, v = scores(4, 5).requires_grad_(), scores(5, 3, seed=1).requires_grad_()
    p = drawing()(theta)
    expected_loss((p @ v).square().sum(-1)).backward()
    w = v.detach().requires_grad_()
    (p.detach() @ w).square().sum(-1).mean().backward()
    torch.testing.assert_close(v.grad, w.grad)


def test_backward_without_it_raises():
    theta, v = scores(4, 5).requires_grad_(), scores(5, 3, seed=1).requires_grad_()
    losses = (drawing()(theta) @ v).square().sum(-1)
    with pytest.raises(RuntimeError, match=r"by Reinforce\(\).*use regard.losses.expected_loss\(losses\)"):
        losses.mean().backward(retain_graph=True)
    assert theta.grad is None
    expected_loss(losses)  # made, and not used
    with pytest.raises(RuntimeError, match="whose gradient comes through the losses"):
        losses.mean().backward(retain_graph=True)
    expected_loss(losses).backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="whose gradient comes through the losses"):
        losses.mean().backward(retain_graph=True)  # what was used for another backward does not count
    (alone,) = torch.autograd.grad(losses.mean(), v)  # nothing asks the draw
    assert alone.isfinite().all()


def test_a_pass_that_did_not_reach_the_draw_leaves_no_trace():
    theta, v = scores(4, 5).requires_grad_(), scores(5, 3, seed=1).requires_grad_()
    losses = (drawing()(theta) @ v).square().sum(-1)
    torch.autograd.grad(expected_loss(losses), v, retain_graph=True)
    with pytest.raises(RuntimeError, match="whose gradient comes through the losses"):
        losses.mean().backward()


def test_retain_graph_repeats_the_gradient():
    theta = scores(4, 5).requires_grad_()
    loss = expected_loss((drawing()(theta) * scores(5, seed=1)).sum(-1))
    loss.backward(retain_graph=True)
    once = theta.grad.clone()
    loss.backward()
    torch.testing.assert_close(theta.grad, 2 * once)


def test_two_losses_that_share_a_draw():
    """Each adds its own part, and the second is not compared with what the first made of the same draws."""
    estimator = Reinforce()
    estimator.observe(torch.tensor(3.0))
    theta = scores(4, 5).requires_grad_()
    p = drawing(estimator)(theta)
    one, two = (p * scores(5, seed=1)).sum(-1), (p * scores(5, seed=2)).sum(-1).square()
    (expected_loss(one) + expected_loss(two)).backward()
    with torch.no_grad():
        want = ((one + 3.0) + (two + 3.0))[:, None] * (p - theta.softmax(-1)) / 4
    torch.testing.assert_close(theta.grad, want)


def test_only_the_draws_the_losses_depend_on():
    map = drawing()
    one, two = scores(4, 5).requires_grad_(), scores(4, 5, seed=1).requires_grad_()
    first, other = map(one), map(two)
    expected_loss(1 + first[:, 0] + other.detach()[:, 1]).backward()
    assert two.grad is None
    assert (one.grad != 0).any()


def test_an_intervention_that_replaces_the_draw_leaves_nothing_to_find():
    torch.manual_seed(0)
    model, x = Classifier(Hard(Reinforce())), torch.randn(5, 7, 6)
    with regard.intervene(model, lambda p: torch.full_like(p, 1 / 7)):
        losses = model(x).square().sum(-1)
    assert not _draws(losses)
    expected_loss(losses).backward()
    assert model.query.grad is None


def test_eval_and_no_grad_find_nothing_and_change_nothing():
    torch.manual_seed(0)
    model, x = Classifier(Hard(Reinforce())), torch.randn(5, 7, 6)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        assert expected_loss(model(x).square().sum(-1)).grad_fn is None
    losses = model(x).square().sum(-1)
    with torch.no_grad():
        expected_loss(losses)
    model.eval()
    losses = model(x).square().sum(-1)
    expected_loss(losses).backward()  # the best key, whose gradient is 0
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert (model.read.weight.grad != 0).any()


def test_a_draw_shared_by_the_batch_is_learned_from_all_examples():
    theta, targets = scores(1, 5).requires_grad_(), scores(8, 5, seed=1)
    p = drawing()(theta)
    losses = (p * targets).sum(-1)  # (8,)
    expected_loss(losses).backward()
    with torch.no_grad():
        torch.testing.assert_close(theta.grad, losses.mean() * (p - theta.softmax(-1)))


def test_one_row_is_one_example():
    theta = scores(5).requires_grad_()
    p = drawing()(theta)
    losses = (p * scores(5, seed=1)).sum(-1, keepdim=True)
    expected_loss(losses).backward()
    torch.testing.assert_close(theta.grad, (losses * (p - theta.softmax(-1))).detach())


@pytest.mark.parametrize(
    ("losses", "error", "message"),
    [
        (lambda p: p.mean(), ShapeError, r"losses must be \(b,\), one for each example; got \(\)"),
        (lambda p: p, ShapeError, r"got \(4, 5\)\. Use reduction=\"none\""),
        (lambda p: p.sum(-1)[:3], ShapeError, r"losses must be \(4,\).*scores \(4, 5\).*got \(3,\)"),
        (lambda p: p.sum(-1).long(), DtypeError, "losses must be float16"),
        (lambda p: 3.0, TypeError, "losses must be a tensor; got float"),
        (lambda p: lambda: p.mean(), ShapeError, r"losses must be \(b,\)"),
    ],
)
def test_bad_losses(losses, error, message):
    estimator = Reinforce()
    p = drawing(estimator)(scores(4, 5).requires_grad_())
    with pytest.raises(error, match=message):
        expected_loss(losses(p))
    assert estimator.batches == 0


def test_exact_wants_a_function():
    losses = drawing(Exact())(scores(4, 5).requires_grad_()).sum(-1)
    with pytest.raises(TypeError, match=r"got a tensor of losses.*expected_loss\(lambda: losses\)"):
        expected_loss(losses)
    with pytest.raises(RuntimeError, match=r"drawn by Exact\(\)"):
        losses.sum().backward()


def test_torch_func_is_refused():
    with pytest.raises(NotImplementedError, match="expected_loss walks autograd's graph"):
        grad(lambda t: expected_loss(t.square()))(scores(4))
    with pytest.raises(NotImplementedError, match="expected_loss walks autograd's graph"):
        vmap(expected_loss)(scores(3, 4))


def test_a_thousand_steps():
    """An RNN whose every step attends to where the last one looked: the walk does not recurse."""
    torch.manual_seed(0)
    map, W, x = Hard(Reinforce()), nn.Linear(4, 4), torch.randn(2, 6, 4)
    state = torch.zeros(2, 4)
    for _ in range(1000):
        state = torch.tanh(W(state) + regard.attend(state.unsqueeze(1), x, map=map).context.squeeze(1))
    losses = state.square().sum(-1)
    assert len(_draws(losses)) == 999  # the first state is no parameter's doing
    expected_loss(losses).backward()
    assert W.weight.grad.isfinite().all()
    assert map.estimator.batches == 1


def test_nothing_is_kept_after_backward():
    theta, map = scores(4, 5).requires_grad_(), drawing()
    p = map(theta)
    note = weakref.ref(p.grad_fn.note)
    loss = expected_loss(p[:, 0])
    loss.backward()
    del loss, p
    gc.collect()
    assert note() is None


def test_half_precision_losses():
    theta = scores(4, 5).half().requires_grad_()
    loss = expected_loss((drawing(Reinforce())(theta) * scores(5, seed=1).half()).sum(-1))
    loss.backward()
    assert loss.dtype == torch.float16
    assert theta.grad.dtype == torch.float16 and theta.grad.isfinite().all()


# Second derivatives


def test_second_derivatives_are_unbiased():
    """Two draws, the second depending on the first, and a loss that bends: the Hessian by enumeration."""
    theta, link, v = scores(2), scores(2, 2, seed=1), scores(2, seed=2)

    def expected(theta):
        p, q = theta.softmax(-1), (link * theta[0]).softmax(-1)
        return sum(p[i] * q[i, j] * (v[j] + theta[1] + i) ** 2 for i in range(2) for j in range(2))

    want = torch.autograd.functional.hessian(expected, theta)
    x = theta.expand(SAMPLES, 2).clone().requires_grad_()
    map = drawing()
    first = map(x)
    second = map((first @ link) * x[:, :1])
    estimator_of = {id(n.note.estimator) for n in _draws(second @ v)}
    assert len(estimator_of) == 1
    losses = (second @ v + x[:, 1] + first[:, 1]).square()
    (slope,) = torch.autograd.grad(SAMPLES * expected_loss(losses), x, create_graph=True)
    for i in range(2):
        (row,) = torch.autograd.grad(slope[:, i].sum(), x, retain_graph=True)
        error = (row.mean(0) - want[i]) / (row.std(0) / math.sqrt(SAMPLES))
        assert error.abs().max() < 3.5


# Wrapping


def test_checkpointing_draws_the_same_again():
    torch.manual_seed(0)
    model, x = Classifier(Hard(Reinforce(None))), torch.randn(5, 7, 6)
    grads = []
    for run in (model, lambda x: checkpoint(model, x, use_reentrant=False)):
        torch.manual_seed(1)
        model.zero_grad()
        expected_loss(run(x).square().sum(-1)).backward()
        grads.append(model.query.grad.clone())
    torch.testing.assert_close(*grads)
    assert (grads[0] != 0).any()


def test_checkpointing_that_hides_the_draws_raises():
    model, x = Classifier(Hard(Reinforce(None))), torch.randn(5, 7, 6, requires_grad=True)
    losses = checkpoint(model, x, use_reentrant=True).square().sum(-1)
    with pytest.raises(RuntimeError, match="whose gradient comes through the losses"):
        expected_loss(losses).backward()


def test_checkpointing_with_what_it_cannot_repeat_raises():
    x = torch.randn(5, 7, 6)
    model = Classifier(drawing(StraightThrough()))
    losses = checkpoint(model, x, use_reentrant=False).square().sum(-1)
    with pytest.raises(RuntimeError, match="drawn again inside backward"):
        expected_loss(losses).backward()
    model = Classifier(Hard(Exact()))
    loss = expected_loss(lambda: checkpoint(model, x, use_reentrant=False).square().sum(-1))
    with pytest.raises(RuntimeError, match="Exact cannot choose again inside backward"):
        loss.backward()


def test_distributed_data_parallel(tmp_path):
    torch.manual_seed(0)
    model, x = Classifier(Hard(Reinforce())), torch.randn(5, 7, 6)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        grads = []
        for run in (model, nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)):
            torch.manual_seed(1)
            model.zero_grad()
            model.attention.map.estimator.average.zero_()
            model.attention.map.estimator.batches.zero_()
            expected_loss(run(x).square().sum(-1)).backward()
            grads.append(model.query.grad.clone())
    finally:
        torch.distributed.destroy_process_group()
    torch.testing.assert_close(*grads)
    assert (grads[0] != 0).any()
    assert model.attention.map.estimator.batches == 1


def test_a_scaler_scales_all_of_it():
    theta = scores(4, 5).requires_grad_()
    loss = expected_loss((drawing()(theta) * scores(5, seed=1)).sum(-1))
    (alone,) = torch.autograd.grad(loss, theta, retain_graph=True)
    (scaled,) = torch.autograd.grad(1024 * loss, theta)
    torch.testing.assert_close(scaled, 1024 * alone)
