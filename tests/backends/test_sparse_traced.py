"""What is compiled, exported or spread over processes keeps the sparse backend, with the same numbers."""

from dataclasses import replace

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import regard
from regard import attend
from regard.masks import Causal, Lengths
from regard.scores import ScaledDot
from regard.scores.score import ByDistance
from training.together import together

N, D = 140, 8
OPERATOR, BACKWARD = torch.ops.regard.sparse_attention, torch.ops.regard.sparse_attention_backward
SETTINGS = {
    "bare": lambda: {},
    "causal": lambda: {"mask": Causal()},
    "padded": lambda: {"mask": Causal() & Lengths(torch.tensor([N, 3]))},
    "boolean": lambda: {"mask": torch.rand(2, 1, N, N) > 0.5},
    "terms": lambda: {"score": ScaledDot() + Terms()},
    "dropout": lambda: {"dropout": 0.3},
}


class Terms(nn.Module):
    """A bias for each pair, and one by distance."""

    def __init__(self):
        super().__init__()
        self.bias, self.distance = torch.randn(3, N, N), ByDistance(torch.randn(3, 1, 9), -4)

    def forward(self, query, keys, place):
        return self.bias + self.distance.written(query.shape[-2], keys.shape[-2])

    def added(self, products, query, keys, place):
        return replace(products, bias=self.bias, distance=self.distance)


def graphs():
    """A backend for torch.compile, and the operators that it sees."""
    seen = []

    def look(graph, inputs):
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph.forward)

    return aot_autograd(fw_compiler=look, bw_compiler=look), seen


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("map", ["entmax15", "sparsemax"])
def test_compiled_as_one_graph(map, settings):
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = SETTINGS[settings]()
    x = torch.randn(2, 3, N, D, dtype=torch.float64, requires_grad=True)

    def slope(run):
        torch.manual_seed(1)
        context = run(x)
        return context, *torch.autograd.grad(context.square().sum(), x)

    backend, seen = graphs()
    function = lambda z: attend(z, z.flip(-2), map=map, **made).context  # noqa: E731
    found = slope(torch.compile(function, fullgraph=True, backend=backend))
    assert OPERATOR.default in seen and BACKWARD.default in seen
    for a, b in zip(found, slope(function), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_compiled_without_gradient():
    torch._dynamo.reset()
    backend, seen = graphs()
    x = torch.randn(2, N, D)
    function = lambda z: attend(z, z, map="entmax15").context  # noqa: E731
    with torch.no_grad():
        found = torch.compile(function, fullgraph=True, backend=backend)(x)
    assert OPERATOR.default in seen
    torch.testing.assert_close(found, attend(x, x, map="entmax15").context)


class Alone(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = regard.MultiHead(D, 2, map="entmax15")

    def forward(self, x):
        return self.heads(x, mask=Causal()).context


@pytest.mark.parametrize("axes", ["b", "bn"])
def test_exported_with_sizes_of_any_kind(axes):
    least = {"b": 2, "n": 9}  # so many queries are more than a decoding step
    sizes = {axis: torch.export.Dim(name, min=least[name]) for axis, name in enumerate(axes)}
    model, x = Alone(), torch.randn(3, N, D)
    exported = torch.export.export(model, (x,), dynamic_shapes={"x": sizes})
    assert any(node.target is OPERATOR.default for node in exported.graph.nodes)
    for shape in [(5, N, D), *([(4, 20, D), (2, 200, D)] if 1 in sizes else [])]:
        other = torch.randn(shape)
        torch.testing.assert_close(exported.module()(other), model(other))


def learn(team, sharded):
    """Weights after two steps of all processes; one process takes all the rows."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = Alone()
    if sharded:
        fully_shard(model)
    run = DistributedDataParallel(model) if team.size > 1 and not sharded else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, N, D)[team.rank :: team.size]
    for _ in range(2):
        optimizer.zero_grad()
        run(x).square().mean().backward()
        optimizer.step()
    return [(p.full_tensor() if sharded else p).tolist() for p in model.parameters()]


@pytest.mark.parametrize("sharded", [False, True])
def test_in_several_processes(sharded):
    """DDP and FSDP2: the same steps as one process takes."""
    want = learn(regard.training.Team(), False)
    for found in together(2, learn, sharded):
        assert not isinstance(found, BaseException), found
        for a, b in zip(found, want, strict=True):
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-4, atol=1e-5)
