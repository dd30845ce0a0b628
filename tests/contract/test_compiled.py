"""torch.compile, without a graph break."""

import pytest
import torch

from contract.grid import ROWS, inputs, made
from regard import Attention, attend
from regard.masks import Causal, Lengths

FEW = ["softmax", "sparsemax", "fusedmax"]  # in torch, by a kernel, by one to which neighbours matter


@pytest.mark.parametrize(
    ("score", "map"), [*(("scaled_dot", map) for map in ROWS), *(("additive", map) for map in FEW)]
)
def test_compiles_without_a_graph_break(score, map):
    torch._dynamo.reset()
    attention = Attention(made(score), map)
    q, k, v = inputs(grad=True)
    mask = Causal() & Lengths(torch.tensor([4, 2]))
    compiled = torch.compile(
        lambda q, k, v: attention(q, k, v, mask=mask).context, fullgraph=True, backend="aot_eager"
    )
    out, want = compiled(q, k, v), attention(q, k, v, mask=mask).context
    torch.testing.assert_close(out, want)
    if out.requires_grad:
        got = torch.autograd.grad(out.square().sum(), (q, k, v), allow_unused=True)
        torch.testing.assert_close(
            got, torch.autograd.grad(want.square().sum(), (q, k, v), allow_unused=True)
        )


def test_weights_can_be_looked_at_inside_what_is_compiled():
    torch._dynamo.reset()
    q, k, v = inputs(grad=True)
    compiled = torch.compile(
        lambda q: attend(q, k, v, mask=Causal()).weights, fullgraph=True, backend="aot_eager"
    )
    torch.testing.assert_close(compiled(q), attend(q, k, v, mask=Causal()).weights)
