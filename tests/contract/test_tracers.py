"""Tracers, counters and checkpointing see the plain three steps, in values and gradients, on every backend.

200 keys are enough for the sparse backend, and four axes for the flash one.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import regard
from regard import MAPS, attend
from regard.backends import blocks as block_backend
from regard.backends import dispatch, flash_tiles
from regard.masks import Blocks, Causal, Documents, Lengths, Prefix, Window

FEW = ["entmax15", "sparsemax", "softmax", "sigmoid"]
few_maps = pytest.mark.parametrize("map", FEW)
N, D = 200, 16


def made(grad=False, n=N, **settings):
    torch.manual_seed(0)
    return torch.randn(1, 2, n, D, dtype=torch.float64, **settings).requires_grad_(grad)


def steps(z, map):
    visible = torch.ones(z.shape[-2], z.shape[-2], dtype=torch.bool).tril()
    return MAPS[map]((z @ z.mT / D**0.5).masked_fill(~visible, -torch.inf)) @ z


def fast(z, map):
    return attend(z, z, map=map, mask=Causal()).context


def slope(function, z, map):
    return torch.autograd.grad(function(z, map).square().sum(), z)[0]


@few_maps
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(map, mode):
    x = made()
    traced = make_fx(lambda z: fast(z, map), tracing_mode=mode)(x)
    torch.testing.assert_close(traced(2 * x), steps(2 * x, map))


@few_maps
def test_make_fx_of_a_gradient(map):
    x = made(grad=True)
    traced = make_fx(lambda z: slope(fast, z, map))(x)
    other = (2 * x).detach().requires_grad_()
    torch.testing.assert_close(traced(other), slope(steps, other, map))


@few_maps
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_jit_trace(map, grad):
    x = made(grad=grad)
    traced = torch.jit.trace(lambda z: fast(z, map), x, check_trace=False)
    torch.testing.assert_close(traced(2 * x), steps(2 * x, map))


MASKS = {
    "window": lambda: Window(5) & Causal(),
    "lengths": lambda: Causal() & Lengths(torch.tensor([N - 3])),
    "documents": lambda: Documents(torch.arange(N) // 30),
    "either": lambda: Prefix(3) | Documents(torch.arange(N) % 7),
    "blocks": lambda: ~Blocks(torch.eye(5).bool(), 50),
}
every_mask = pytest.mark.parametrize("mask", MASKS)


@pytest.fixture
def tiled(monkeypatch):
    """Tiles that 200 keys are cut into."""
    monkeypatch.setattr(flash_tiles, "TALL", 64)
    monkeypatch.setattr(flash_tiles, "SHORT", 32)


def under(z, mask):
    return attend(z, z, mask=MASKS[mask]()).context


def by_hand(z, mask):
    visible = MASKS[mask]().rows(0, N, N, N, 2, z.device)
    return (z @ z.mT / D**0.5).masked_fill(~visible, -torch.inf).softmax(-1) @ z


@every_mask
def test_make_fx_under_a_mask(tiled, mask):
    x = made(grad=True)
    torch.testing.assert_close(slope(under, x, mask), slope(by_hand, x, mask))
    traced = make_fx(lambda z: slope(under, z, mask))(x)
    other = (2 * x).detach().requires_grad_()
    torch.testing.assert_close(traced(other), slope(by_hand, other, mask))


@every_mask
def test_fake_tensors_under_a_mask(tiled, mask):
    with FakeTensorMode():
        x = made(grad=True)
        assert slope(under, x, mask).shape == x.shape


@every_mask
def test_compiled_under_a_mask(tiled, mask):
    torch._dynamo.reset()
    x = made(grad=True)
    shown = MASKS[mask]()
    run = torch.compile(lambda z, _: attend(z, z, mask=shown).context, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(slope(run, x, mask), slope(by_hand, x, mask))


def test_a_checkpoint_under_a_mask_runs_its_function_twice(tiled):
    runs, x = [], made(grad=True)

    def function(z):
        runs.append(1)
        return under(under(z, "window"), "documents")

    found = torch.autograd.grad(checkpoint(function, x, use_reentrant=False).square().sum(), x)
    assert len(runs) == 2
    assert torch.equal(found[0], torch.autograd.grad(function(x).square().sum(), x)[0])


@few_maps
def test_fake_tensors(map):
    with FakeTensorMode():
        x = made(grad=True)
        assert slope(fast, x, map).shape == x.shape


@pytest.mark.parametrize("map", MAPS)
def test_the_meta_device(map):
    x = made(grad=True, n=12, device="meta")
    seen = attend(x[..., :12], x[..., :12], map=map)
    assert seen.weights.shape == (1, 2, 12, 12)
    seen.context.sum().backward()
    assert x.grad.is_meta and x.grad.shape == x.shape


@few_maps
@pytest.mark.parametrize("grad", [False, True])
def test_flops_are_those_of_the_plain_steps(map, grad):
    def counted(function, x):
        with FlopCounterMode(display=False) as counter:
            answer = function(x)
            if grad:
                answer.sum().backward()
        return counter.get_total_flops()

    x = made(grad=grad)
    found, plain = (counted(f, x) for f in (lambda z: attend(z, z, map=map).context, lambda z: whole(z, map)))
    if map == "softmax" and grad:  # torch's kernel computes the scores again in backward
        assert found == plain * 7 // 6
    else:
        assert found == plain


def whole(z, map):
    return MAPS[map](z @ z.mT / D**0.5) @ z


def test_a_counter_around_backward_alone():
    x = made(grad=True)
    context = attend(x, x, map="entmax15").context
    with FlopCounterMode(display=False) as counter:
        context.sum().backward()
    assert counter.get_total_flops() == 4 * 2 * N * N * 2 * D


def test_a_jacobian_by_batched_gradients():
    x = made(grad=True, n=130)

    def some(z):
        return attend(z, z, map="entmax15").context[..., :2, :2]

    one, all = (torch.autograd.functional.jacobian(some, x, vectorize=way) for way in (False, True))
    torch.testing.assert_close(one, all)


@few_maps
def test_export_with_a_batch_of_any_size(map):
    heads = regard.MultiHead(8, 2, map=map).double()

    class Alone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = heads

        def forward(self, x):
            return self.heads(x, mask=Causal()).context

    x = torch.randn(2, 150, 8, dtype=torch.float64)  # as many sequences as heads
    sizes = {"x": {0: torch.export.Dim("b")}}
    exported = torch.export.export(Alone(), (x,), dynamic_shapes=sizes).module()
    other = torch.randn(5, 150, 8, dtype=torch.float64)
    torch.testing.assert_close(exported(other), heads(other, mask=Causal()).context)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("backend", ["flash", "sparse", "plain", "blocks"])
def test_a_checkpoint_runs_its_function_twice(monkeypatch, backend, count):
    map = {"flash": "softmax", "sparse": "entmax15"}.get(backend, "sigmoid")
    if backend == "blocks":
        monkeypatch.setattr(dispatch, "LARGE", 0)
        monkeypatch.setattr(block_backend, "budget", lambda call: N * N)
    heads = torch.nn.ModuleList(regard.MultiHead(D, 2, map=map) for _ in range(count)).double()
    runs = []

    def function(z):
        runs.append(1)
        for one in heads:
            z = z + one(z, mask=Causal()).context
        return z

    x = made(grad=True)[0]
    with regard.record(heads) as seen:
        found = torch.autograd.grad(checkpoint(function, x, use_reentrant=False).square().sum(), x)
    assert len(runs) == 2
    assert [len(calls) for calls in seen.values()] == [1] * count
    assert torch.equal(found[0], torch.autograd.grad(function(x).square().sum(), x)[0])


def test_hard_attention_compiles_without_a_graph_break():
    torch._dynamo.reset()
    x = made(grad=True, n=6)
    compiled = torch.compile(
        lambda z: attend(z, z, map="hard", mask=Causal()).weights, fullgraph=True, backend="aot_eager"
    )
    weights = compiled(x)
    assert torch.equal(weights.sum(-1), torch.ones(1, 2, 6, dtype=torch.float64))
    assert weights.triu(1).sum() == 0
    weights[..., 0].sum().backward()
    assert x.grad.abs().sum() > 0


def test_recording_what_was_compiled_as_one_graph_says_what_to_do():
    torch._dynamo.reset()
    heads = regard.MultiHead(8, 2)
    compiled, x = torch.compile(heads, fullgraph=True, backend="aot_eager"), torch.randn(1, 3, 8)
    want = compiled(x).context
    with regard.record(heads) as seen:
        with pytest.raises(torch._dynamo.exc.Unsupported, match="compile without fullgraph=True"):
            compiled(x)
        torch.testing.assert_close(heads(x).context, want)  # as it says
    assert len(seen[""]) == 1
