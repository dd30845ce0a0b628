"""Relative values on fast backends: values and gradients, first and second, are those of the plain steps."""

import pytest
import torch

import regard
from regard.backends import dispatch, flash_values, sparse_values
from regard.backends.plain import plain
from regard.masks import Causal, Lengths, Window
from regard.positions import ALiBi, Relative, RelativeValues
from regard.scores import ScaledDot, SoftCap

N, D = 150, 6
CALLS = {
    "bare": lambda: {},
    "wide": lambda: {"value_term": RelativeValues(D, 200).double()},
    "only before and after": lambda: {"value_term": RelativeValues(D, 0).double()},
    "causal & lengths": lambda: {"mask": Causal() & Lengths(torch.tensor([N, 70]))},
    "window": lambda: {"mask": Window(5)},
    "boolean": lambda: {"mask": torch.rand(2, 1, N, N) > 0.6},
    "Shaw's keys": lambda: {"score": ScaledDot() + Relative(D, 3).double(), "mask": Causal()},
    "alibi": lambda: {"score": ScaledDot() + ALiBi(4)},
    "cap": lambda: {"score": SoftCap(ScaledDot(), 2.0)},
    "sink": lambda: {"sink": 0.5},
    "groups": lambda: {"groups": 2},
}


@pytest.fixture
def small(monkeypatch):
    for module in (flash_values, sparse_values):
        monkeypatch.setattr(module, "ROWS", 64)


def made(map, settings):
    torch.manual_seed(0)
    q = torch.randn(2, 4, N, D, dtype=torch.float64, requires_grad=True)
    kv = 4 // settings.get("groups", 1)
    k, v = (torch.randn(2, kv, N, D, dtype=torch.float64, requires_grad=True) for _ in range(2))
    term = settings.pop("value_term", None) or RelativeValues(D, 3).double()
    return (q, k, v, term.a), regard.attend(q, k, v, map=map, value_term=term, **settings)


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_gives_the_plain_answer(small, monkeypatch, map, case):
    def refuse(call):
        raise AssertionError("left the fast backends")

    monkeypatch.setattr(dispatch, "blocks", refuse)
    monkeypatch.setattr(dispatch, "plain", refuse)
    torch.manual_seed(1)
    leaves, seen = made(map, CALLS[case]())
    want = plain(seen._call)[0]
    want = want.flatten(1, 2) if seen._call.groups > 1 else want
    torch.testing.assert_close(seen.context, want)
    gradient = torch.randn_like(want)
    found, expected = (
        torch.autograd.grad(z, leaves, gradient, retain_graph=True) for z in (seen.context, want)
    )
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(plain(seen._call)[0].reshape(want.shape), want)
    slopes = [torch.autograd.grad(z, leaves[0], gradient, create_graph=True)[0] for z in (seen.context, want)]
    again, expected = (torch.autograd.grad(s.square().sum(), leaves[1:], retain_graph=True) for s in slopes)
    torch.testing.assert_close(again, expected)


@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_dropout_is_the_same_again_in_backward(small, map):
    torch.manual_seed(0)
    leaves, seen = made(map, {"dropout": 0.4})
    gradient = torch.randn_like(seen.context)
    slope = torch.autograd.grad(seen.context, leaves, gradient)
    values, term = leaves[2], leaves[3]
    both = (slope[2] * values).sum() + (slope[3] * term).sum()  # the context is linear in these
    torch.testing.assert_close(both, (seen.context * gradient).sum())


def test_positions_that_do_not_count_up_take_the_plain_steps():
    place = regard.Place(torch.arange(N).flip(0), torch.arange(N))
    q = torch.randn(N, D)
    seen = regard.attend(q, q, value_term=RelativeValues(D, 3), place=place)
    assert flash_values.band_of(seen._call) is None
    torch.testing.assert_close(seen.context, plain(seen._call)[0])
