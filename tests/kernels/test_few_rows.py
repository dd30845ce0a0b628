"""A linear layer for a few rows is torch's, and where more than a product is asked torch does it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

from regard.kernels.decoding import few_rows
from regard.kernels.decoding.few_rows import linear, product


@pytest.fixture
def calls(monkeypatch):
    """The products that torch does, one entry each."""
    found, torchs = [], F.linear

    def counted(*arguments):
        found.append(arguments)
        return torchs(*arguments)

    monkeypatch.setattr(few_rows.F, "linear", counted)
    return found


@torch.no_grad()
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", range(1, 9))
@pytest.mark.parametrize(("d", "n"), [(1, 1), (7, 5), (8, 64), (33, 130), (64, 51), (257, 4)])
def test_equals_torch(rows, d, n, kind, calls):
    torch.manual_seed(rows)
    x, weight = torch.randn(rows, 1, d, dtype=kind), torch.randn(n, d, dtype=kind)
    for bias in (None, torch.randn(n, dtype=kind)):
        found = product(x, weight, bias)
        assert not calls and found.shape == (rows, 1, n) and found.is_contiguous()
        wide = F.linear(x.double(), weight.double(), bias if bias is None else bias.double())
        torch.testing.assert_close(
            found.double(), wide, atol=1e-4 if kind is torch.float32 else 1e-12, rtol=0
        )
        calls.clear()


@torch.no_grad()
def test_threads_share_the_outputs(monkeypatch):
    monkeypatch.setattr(few_rows, "LEAST", 1)
    threads = torch.get_num_threads()
    x, weight, bias = torch.randn(3, 40), torch.randn(1001, 40), torch.randn(1001)
    try:
        torch.set_num_threads(2)
        found = product(x, weight, bias)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(found, F.linear(x, weight, bias), atol=1e-4, rtol=1e-5)


@torch.no_grad()
def test_not_a_number_and_infinity_come_through():
    weight = torch.randn(5, 16)
    weight[1, 3], weight[2, 15] = torch.nan, torch.inf
    found = product(torch.ones(1, 16), weight)[0]
    assert found[1].isnan() and found[2] == torch.inf and found[[0, 3, 4]].isfinite().all()


@torch.no_grad()
def test_what_it_does_not_take_is_done_by_torch(calls):
    weight = torch.randn(6, 4)
    for x, W in (
        (torch.randn(9, 4), weight),  # too many rows
        (torch.randn(0, 4), weight),
        (torch.randn(4, 2).T, weight),  # not in the order of its axes
        (torch.randn(2, 4), torch.randn(4, 6).T),
        (torch.randn(2, 4).bfloat16(), weight.bfloat16()),
        (torch.randn(2, 4).half(), weight.half()),
    ):
        calls.clear()
        assert product(x, W).shape == (len(x), 6) and len(calls) == 1
    calls.clear()
    with torch.autocast("cpu", torch.bfloat16):
        assert product(torch.randn(2, 4), weight).dtype is torch.bfloat16 and len(calls) == 1
    calls.clear()
    with torch.enable_grad():
        assert product(torch.randn(2, 4, requires_grad=True), weight).requires_grad and len(calls) == 1
    for wrong in (torch.randn(2, 5), torch.randn(2, 4).double()):
        with pytest.raises(RuntimeError):
            product(wrong, weight)
    each = torch.vmap(lambda W: product(torch.ones(1, 4), W))(torch.randn(3, 6, 4))
    assert each.shape == (3, 1, 6)


@torch.no_grad()
def test_a_layer_that_does_more_is_called():
    layer, x, heard = nn.Linear(4, 6), torch.randn(2, 4), []
    wanted = layer(x)
    torch.testing.assert_close(linear(layer, x), wanted)
    with layer.register_forward_hook(lambda *_: heard.append("after")):
        linear(layer, x)
    with layer.register_forward_pre_hook(lambda *_: heard.append("before")):
        linear(layer, x)
    with register_module_forward_hook(lambda *_: heard.append("every")):
        linear(layer, x)
    assert heard == ["after", "before", "every"]
    layer.forward = lambda x: x.new_zeros(2, 6)  # as libraries do that put weights where they are needed
    assert not linear(layer, x).any()

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    other = Doubled(4, 6)
    torch.testing.assert_close(linear(other, x), other(x))
    scaled = nn.utils.parametrizations.weight_norm(nn.Linear(4, 6))
    torch.testing.assert_close(linear(scaled, x), scaled(x))


def test_it_is_compiled_and_differentiated_as_ever():
    layer, x = nn.Linear(4, 6), torch.randn(2, 4, requires_grad=True)
    linear(layer, x).sum().backward()
    assert layer.weight.grad is not None and x.grad is not None
    compiled = torch.compile(lambda x: linear(layer, x), backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), layer(x))
