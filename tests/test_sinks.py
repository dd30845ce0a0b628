"""Sinks: one more key that takes weight and has no value."""

from functools import partial

import pytest
import torch
from torch import nn

import regard
from regard import MAPS
from regard.core.errors import ShapeError
from regard.masks import Causal, Lengths

TAKES = [
    name
    for name, entry in MAPS.items()
    if entry.acts_on == "row" and entry.simplex and not entry.neighbours and not entry.stochastic
]


def inputs(m=3, n=5, heads=2):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(2, heads, s, 4, dtype=torch.float64, generator=g) for s in (m, n, n)]


@pytest.mark.parametrize("map", TAKES)
@pytest.mark.parametrize("mask", [None, Causal(), Lengths(torch.tensor([4, 0]))], ids=str)
def test_a_sink_is_a_key_of_value_0(map, mask):
    q, k, v = inputs()
    sink = torch.tensor([0.7, -0.2], dtype=torch.float64, requires_grad=True)
    seen = regard.attend(q, k, v, map=map, mask=mask, sink=sink)
    theta = torch.cat([seen.scores, sink.view(2, 1, 1).expand(2, 2, 3, 1)], -1)
    hidden = torch.zeros(2, 2, 3, 6, dtype=torch.bool)
    if mask is not None:
        hidden[..., :5] = ~regard.masks.as_mask(mask).rows(0, 3, 3, 5, 2, q.device)
    p = MAPS[map](theta.masked_fill(hidden, float("-inf")))[..., :5]
    torch.testing.assert_close(seen.weights, p)
    torch.testing.assert_close(seen.context, p @ v)
    assert (seen.weights.sum(-1) <= 1 + 1e-12).all()
    if MAPS[map].differentiable:
        got = torch.autograd.grad(seen.context.square().sum(), sink)
        torch.testing.assert_close(got, torch.autograd.grad((p @ v).square().sum(), sink))


def test_softmax_plus_one():
    q, k, v = inputs()
    seen = regard.attend(q, k, v, sink=0.0)
    theta = seen.scores.exp()
    torch.testing.assert_close(seen.weights, theta / (1 + theta.sum(-1, keepdim=True)))


def test_the_weight_of_a_low_sink_is_exactly_0():
    q, k, v = inputs()
    for map in ("sparsemax", "entmax15"):
        low, none = (regard.attend(q, k, v, map=map, sink=s) for s in (-9.0, None))
        assert torch.equal(low.weights, none.weights)
        assert low.sink.shape == (1,) and none.sink is None


def test_shapes_of_sinks():
    q, k, v = inputs()
    each = torch.randn(2, 2, 3).double()  # one for every query
    for sink in (torch.tensor(0.3).double(), each, each[..., :1], each[:1, :, :1], each[0]):
        got = regard.attend(q, k, v, sink=sink).weights
        whole = sink.reshape(1) if sink.dim() == 0 else sink
        want = torch.cat([q @ k.mT / 2, whole.expand(2, 2, 3).unsqueeze(-1)], -1).softmax(-1)[..., :-1]
        torch.testing.assert_close(got, want)
    with pytest.raises(ShapeError, match=r"one for each head \(heads,\)"):
        regard.attend(q, k, v, sink=torch.zeros(3).double())


@pytest.mark.parametrize("map", ["fusedmax", "sinkhorn", "sigmoid", "chain"])
def test_maps_for_which_a_sink_has_no_meaning_refuse(map):
    q, k, v = inputs()
    with pytest.raises(ValueError, match=f"a sink is one more key without a place: {map}"):
        regard.attend(q, k, v, map=map, sink=0.0)


def test_a_map_of_ones_own_and_a_temperature():
    q, k, v = inputs()
    own = regard.attend(q, k, v, map=lambda theta: theta.softmax(-1), sink=0.5)
    torch.testing.assert_close(own.context, regard.attend(q, k, v, sink=0.5).context)
    cold = regard.attend(q, k, v, map=partial(regard.maps.softmax, temperature=0.5), sink=0.5)
    want = (
        torch.cat([q @ k.mT / 2, torch.full((2, 2, 3, 1), 0.5).double()], -1).div(0.5).softmax(-1)[..., :-1]
    )
    torch.testing.assert_close(cold.weights, want)
    torch.testing.assert_close(cold.context, want @ v)


@pytest.mark.parametrize("shared", [4, 2])
def test_heads_learn_their_sinks(shared):
    torch.manual_seed(0)
    heads = regard.MultiHead(16, 4, sink=True, key_value_heads=shared)
    nn.init.normal_(heads.sink)
    x = torch.randn(2, 5, 16)
    seen = heads(x, mask=Causal())
    seen.context.square().sum().backward()
    assert heads.sink.shape == (4,) and (heads.sink.grad != 0).all()
    rest = 1 - seen.weights.sum(-1)  # (2, 4, 5)
    first = seen.scores[:, :, 0, 0]
    torch.testing.assert_close(rest[:, :, 0], torch.sigmoid(heads.sink - first))
    assert "sink" in regard.MultiHead(8, 2, sink=True).state_dict()
    assert regard.MultiHead(8, 2, sink=0.0).sink == 0.0 and regard.MultiHead(8, 2).sink is None


def test_an_attention_with_a_sink():
    q, k, v = inputs()
    learned = regard.Attention(sink=nn.Parameter(torch.zeros(2, dtype=torch.float64)))
    assert [name for name, _ in learned.named_parameters()] == ["sink"]
    fixed, kept = regard.Attention(sink=0.0), regard.Attention(sink=torch.zeros(2).double())
    assert "sink" in kept.state_dict()
    for one in (learned, kept):
        torch.testing.assert_close(one(q, k, v).context, fixed(q, k, v).context)
    seen = learned(q, k, v).detach()
    assert not seen.weights.requires_grad
    with pytest.raises(TypeError, match="sink=0.0 is softmax plus one"):
        regard.Attention(sink=True)


def test_second_derivatives():
    q, k, v = (x[0].requires_grad_() for x in inputs(2, 3))
    sink = torch.tensor([0.1, -0.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda *x: regard.attend(*x[:3], sink=x[3]).context, (q, k, v, sink))
