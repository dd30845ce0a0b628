"""torch.compile, without a graph break."""

import pytest
import torch

from contract.grid import ROWS, inputs, made
from regard import Attention, attend
from regard.masks import Causal, Lengths
from regard.positions import ALiBi, Bias, T5Bias
from regard.scores import ScaledDot

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


@pytest.mark.parametrize(
    "term", [T5Bias(2), ALiBi(2), Bias(torch.randn(6, 6))], ids=lambda t: type(t).__name__
)
def test_terms_go_to_torchs_kernel(term):
    score, seen = ScaledDot() + term, []

    def backend(graph, inputs):
        seen.append("scaled_dot_product_attention" in graph.print_readable(print_output=False))
        return graph

    x, mask = torch.randn(2, 2, 6, 4, requires_grad=True), Causal() & Lengths(torch.tensor([6, 0]))
    leaves = [x, *(p for p in score.parameters() if p.requires_grad)]
    run = lambda z: attend(z, z, score=score, mask=mask).context  # noqa: E731
    outs = torch.compile(run, fullgraph=True, backend=backend)(x), run(x)
    torch.testing.assert_close(*outs)
    torch.testing.assert_close(*(torch.autograd.grad(z.square().sum(), leaves) for z in outs))
    assert seen == [True]
