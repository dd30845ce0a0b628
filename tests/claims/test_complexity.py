"""C55, what a layer costs, and C9, how much of it has to wait: by counting, never by the clock.

    layer             operations    steps that wait    path between two positions
    self-attention    n² d          1                  1
    recurrent         n d²          n                  n
    convolution       k n d²        1                  ⌈log_k n⌉, with dilation; else ⌈(n − 1)/(k − 1)⌉
    restricted to r   r n d         1                  ⌈n/r⌉

Vaswani et al. (2017), arXiv:1706.03762, Table 1. The table has the cost of the two products with the weights,
not of the projections beside them, which are another 4 n d².
"""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import attend
from regard.heads import MultiHead
from regard.maps import softmax
from regard.masks import Causal, Window
from regard.models import TRANSLATORS
from regard.scores import ScaledDot


def three_steps(q, k, v):
    return softmax(ScaledDot()(q, k)) @ v


def self_attention(x):
    return three_steps(x, x, x)


def recurrent(x):
    return nn.RNN(x.shape[-1], x.shape[-1], batch_first=True)(x)[0]


def convolution(x, k=3):
    return nn.Conv1d(x.shape[-1], x.shape[-1], k)(F.pad(x.mT, (k - 1, 0))).mT


def restricted(x, r=8):
    """Every position looks at r keys: itself and those before it, as (n, r, d) side by side."""
    keys = F.pad(x[0], (0, 0, r - 1, 0)).unfold(0, r, 1).mT  # (n, r, d)
    return three_steps(x[0].unsqueeze(1), keys, keys).mT


@torch.no_grad()
def flops(layer, n, d, **settings):
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, n, d), **settings)
    return counter.get_total_flops()


def exponent(sizes, counts):
    return np.polyfit(np.log(sizes), np.log(counts), 1)[0]


SIZES = [64, 128, 256, 512]


@pytest.mark.parametrize(
    ("layer", "in_n", "in_d"),
    [(self_attention, 2, 1), (recurrent, 1, 2), (convolution, 1, 2), (restricted, 1, 1)],
    ids=lambda what: getattr(what, "__name__", None),
)
def test_c55_operations_grow_as_the_table_says(layer, in_n, in_d):
    assert exponent(SIZES, [flops(layer, n, 32) for n in SIZES]) == pytest.approx(in_n, abs=0.05)
    assert exponent(SIZES, [flops(layer, 32, d) for d in SIZES]) == pytest.approx(in_d, abs=0.05)


@pytest.mark.parametrize("layer", [convolution, restricted])
def test_c55_and_linearly_in_the_size_of_the_window(layer):
    name = "k" if layer is convolution else "r"
    sizes = [2, 4, 8, 16]
    assert exponent(sizes, [flops(layer, 64, 32, **{name: s}) for s in sizes]) == pytest.approx(1, abs=0.05)


def test_c55_what_the_table_leaves_out():
    """With its projections a layer of attention costs another 4 n d²: as much as a GRU (6 n d²) at n = d, and
    more beyond. A product and its sum count as two operations."""
    d = 64
    heads = MultiHead(d, 4)

    def projected(x):
        return heads.W_o(three_steps(heads.W_q(x), heads.W_k(x), heads.W_v(x)))

    def gru(x):
        return nn.GRU(d, d, batch_first=True)(x)

    for n in (d // 2, d, 2 * d):
        assert flops(projected, n, d) == flops(self_attention, n, d) + 2 * 4 * n * d**2
        assert np.sign(flops(projected, n, d) - flops(gru, n, d)) == np.sign(n - d)


# Paths: how many layers until what the first position says can reach the last


def reaches(layers, n):
    """Whether the output at the last position depends on the input at the first."""
    x = torch.ones(1, n, 1, dtype=torch.float64, requires_grad=True)
    y = x
    for layer in layers:
        y = layer(y)
    (grad,) = torch.autograd.grad(y[0, -1, 0], x)
    return bool(grad[0, 0, 0] != 0)


def path(layer, n):
    """The number of layers it takes: layer(i) is the i-th."""
    return next(depth for depth in range(1, n + 1) if reaches([layer(i) for i in range(depth)], n))


def averaged(mask):
    """Equal weights over what may be looked at: the dependencies of any attention with this mask."""
    return lambda x: attend(torch.zeros_like(x), x, x, mask=mask).context


def before(k, dilation=1):
    """A convolution over the position and k − 1 before it, all weights 1/k."""
    kernel = torch.full((1, 1, k), 1 / k, dtype=torch.float64)
    return lambda x: F.conv1d(F.pad(x.mT, (dilation * (k - 1), 0)), kernel, dilation=dilation).mT


@pytest.mark.parametrize("n", [9, 27, 30, 100])
def test_c55_path_lengths(n):
    assert path(lambda i: averaged(None), n) == path(lambda i: averaged(Causal()), n) == 1
    for k in (2, 3):
        layers = math.ceil(round(math.log(n, k), 9))
        assert path(lambda i, k=k: before(k, k**i), n) == layers
        contiguous = path(lambda i, k=k: before(k), n)  # the condition: without dilation it is linear
        assert contiguous == math.ceil((n - 1) / (k - 1)) > layers
    for r in (4, 8):  # a window of r to each side
        assert path(lambda i, r=r: averaged(Window(r)), n) == math.ceil((n - 1) / r)


# C9: how many operations wait for each other


def depth(output):
    """The operations along the longest path from the inputs to this output, in the graph of its gradient."""
    found, todo = {}, [output.grad_fn]
    while todo:
        node = todo[-1]
        before = [function for function, _ in node.next_functions if function is not None]
        missing = [function for function in before if function not in found]
        if missing:
            todo += missing
        else:
            found[todo.pop()] = 1 + max((found[function] for function in before), default=0)
    return found[output.grad_fn]


def depth_of(name, n, m=1, **settings):
    """Of the encoder of a model for n source tokens, or of all of it for m target tokens."""
    model = TRANSLATORS[name].make(source_vocabulary=8, target_vocabulary=8, width=8, dropout=0.0, **settings)
    source = torch.randint(4, 8, (1, n))
    if m > 1:
        return depth(model(source, torch.tensor([n]), torch.randint(4, 8, (1, m))))
    memory = model.encode(source, torch.tensor([n]))
    return depth(memory.encoded if name == "transformer" else next(iter(vars(memory).values())))


def test_c9_the_transformer_reads_in_a_depth_that_does_not_grow():
    """Along the longest path of the graph: in `rnn` and `bahdanau` 1,024 tokens wait for each other."""
    settings = {"heads": 2, "inner": 8, "layers": 2}
    shallow = {n: depth_of("transformer", n, **settings) for n in (64, 256, 1024)}
    assert shallow[64] == shallow[256] == shallow[1024]
    for name in ("rnn", "bahdanau"):
        deep = {n: depth_of(name, n) for n in (64, 256, 1024)}
        print(f"C9 operations along the longest path at 64, 256, 1024: transformer {shallow}, {name} {deep}")
        assert exponent(list(deep), list(deep.values())) == pytest.approx(1, abs=0.05)
        assert deep[1024] >= 100 * shallow[1024]


def test_c9_the_condition_is_a_target_that_is_known():
    """With teacher forcing the decoder does not wait either; `bahdanau` does. A target that is being written
    is written token by token by all of them."""
    settings = {"heads": 2, "inner": 8, "layers": 2}
    assert depth_of("transformer", 8, 16, **settings) == depth_of("transformer", 8, 64, **settings)
    assert depth_of("bahdanau", 8, 64) > 3 * depth_of("bahdanau", 8, 16)
