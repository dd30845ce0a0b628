"""C55, what a layer costs: by counting, never by the clock.

    layer             operations    path between two positions
    self-attention    n² d          1
    recurrent         n d²          n
    convolution       k n d²        ⌈log_k n⌉, with dilation; else ⌈(n − 1)/(k − 1)⌉
    restricted to r   r n d         ⌈n/r⌉

Vaswani et al. (2017), arXiv:1706.03762, Table 1. The table has the cost of the two products with the weights,
not of the projections beside them, which are another 4 n d².
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import attend
from regard.claims.claim import Condition, Figures, between, claim, must_fail
from regard.claims.toy_pairs import exponent
from regard.heads import MultiHead
from regard.maps import softmax
from regard.masks import Causal, Window
from regard.scores import ScaledDot

SIZES = [64, 128, 256, 512]
Layer = Callable[[Tensor], Tensor]


def three_steps(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scaled dot product, softmax, sum."""
    return softmax(ScaledDot()(q, k)) @ v


def self_attention(x: Tensor) -> Tensor:
    """Every position looks at all."""
    return three_steps(x, x, x)


def recurrent(x: Tensor) -> Tensor:
    """A plain recurrent layer."""
    out: Tensor = nn.RNN(x.shape[-1], x.shape[-1], batch_first=True)(x)[0]
    return out


def convolution(x: Tensor, k: int = 3) -> Tensor:
    """Over the position and k − 1 before it."""
    out: Tensor = nn.Conv1d(x.shape[-1], x.shape[-1], k)(F.pad(x.mT, (k - 1, 0)))
    return out.mT


def restricted(x: Tensor, r: int = 8) -> Tensor:
    """Every position looks at r keys: itself and those before it, as (n, r, d) side by side."""
    keys = F.pad(x[0], (0, 0, r - 1, 0)).unfold(0, r, 1).mT  # (n, r, d)
    return three_steps(x[0].unsqueeze(1), keys, keys).mT


@torch.no_grad()
def flops(layer: Callable[..., Any], n: int, d: int, **settings: int) -> int:
    """Operations; a product and its sum count as two."""
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, n, d), **settings)
    return int(counter.get_total_flops())


LAYERS: dict[str, tuple[Callable[..., Tensor], int, int]] = {
    "self-attention": (self_attention, 2, 1),
    "recurrent": (recurrent, 1, 2),
    "convolution": (convolution, 1, 2),
    "restricted": (restricted, 1, 1),
}


def reaches(layers: Iterable[Layer], n: int) -> bool:
    """Whether the output at the last position depends on the input at the first."""
    x = torch.ones(1, n, 1, dtype=torch.float64, requires_grad=True)
    y = x
    for layer in layers:
        y = layer(y)
    (grad,) = torch.autograd.grad(y[0, -1, 0], x)
    return bool(grad[0, 0, 0] != 0)


def path(layers: Iterable[Layer], n: int) -> int:
    """The number of layers it takes, the first of `layers` first."""
    stack: list[Layer] = []
    for layer in layers:
        stack.append(layer)
        if reaches(stack, n):
            break
    return len(stack)


def averaged(mask: Any) -> Layer:
    """Equal weights over what may be looked at: the dependencies of any attention with this mask."""

    def layer(x: Tensor) -> Tensor:
        return attend(torch.zeros_like(x), x, x, mask=mask).context

    return layer


def before(k: int, dilation: int = 1) -> Layer:
    """A convolution over the position and k − 1 before it, all weights 1/k."""
    kernel = torch.full((1, 1, k), 1 / k, dtype=torch.float64)
    return lambda x: F.conv1d(F.pad(x.mT, (dilation * (k - 1), 0)), kernel, dilation=dilation).mT


def wrong_paths(n: int) -> int:
    """How many paths between the ends of n positions are not as long as the table says."""
    expected = [(path(repeat(averaged(mask)), n), 1) for mask in (None, Causal())]
    for k in (2, 3):
        layers = math.ceil(round(math.log(n, k), 9))
        expected.append((path(map(partial(before, k), (k**i for i in range(n))), n), layers))
        expected.append((path(repeat(before(k)), n), math.ceil((n - 1) / (k - 1))))
    for r in (4, 8):  # a window of r to each side
        expected.append((path(repeat(averaged(Window(r))), n), math.ceil((n - 1) / r)))
    return sum(found != wanted for found, wanted in expected)


def cells(x: Tensor) -> Tensor:
    """A recurrent layer step by step, as autograd sees it."""
    cell = nn.RNNCell(x.shape[-1], x.shape[-1]).to(x.dtype)
    state, states = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = cell(x[:, t], state)
        states.append(state)
    return torch.stack(states, 1)


def sequential(layer: Callable[[Tensor], Tensor], n: int) -> int:
    """Operations that must follow one another: the longest way through the graph of one layer."""
    x = torch.randn(1, n, 8, requires_grad=True)
    longest: dict[Any, int] = {}
    stack: list[tuple[Any, bool]] = [(layer(x).grad_fn, False)]
    while stack:
        node, ready = stack.pop()
        before = [one for one, _ in node.next_functions if one is not None]
        if ready:
            longest[node] = 1 + max((longest[one] for one in before), default=0)
        elif node not in longest:
            stack.append((node, True))
            stack += [(one, False) for one in before]
    return max(longest.values())


def cost_table(n: int = 64) -> list[dict[str, Any]]:
    """The table of costs as it is measured: exponents of FLOPs, sequential operations, path between ends."""
    ways: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[int], Layer]]] = {
        "self-attention": (self_attention, lambda i: averaged(None)),
        "recurrent": (cells, lambda i: before(2)),  # one position further in each step
        "convolution": (convolution, lambda i: before(3)),
        "convolution, dilated": (convolution, lambda i: before(3, 3**i)),
        "restricted": (restricted, lambda i: averaged(Window(8))),
    }
    rows = []
    for name, (layer, way) in ways.items():
        counted = LAYERS[name.partition(",")[0]][0]
        grows = exponent([n, 2 * n], [sequential(layer, n), sequential(layer, 2 * n)])
        rows.append(
            {
                "what": name,
                "exponent of n": round(exponent(SIZES, [flops(counted, k, 32) for k in SIZES]), 3),
                "exponent of d": round(exponent(SIZES, [flops(counted, 32, d) for d in SIZES]), 3),
                "sequential operations, exponent of n": abs(round(grows, 2)),
                f"path, n = {n}": n - 1 if name == "recurrent" else path(map(way, range(n)), n),
            }
        )
    return rows


def table_conditions() -> list[Condition]:
    """Exponents within .05 of the table's."""
    conditions = []
    for name, (_, in_n, in_d) in LAYERS.items():
        conditions += between(in_n - 0.05, in_n + 0.05, f"{name}, exponent of n")
        conditions += between(in_d - 0.05, in_d + 0.05, f"{name}, exponent of d")
    return conditions


@claim(
    "C55",
    group="Cost",
    says="n²d, nd², knd², rnd operations; paths 1, n, log_k n, n/r.",
    source="004:1307-1313",
    experiment="PyTorch's FLOP counter, n and d from 64 to 512; how many layers until the first "
    "position can reach the last, n = 9 to 100.",
    control="Without dilation a convolution's path is linear.",
    conditions=[
        *table_conditions(),
        *between(0.95, 1.05, "convolution, exponent of k"),
        *between(0.95, 1.05, "restricted, exponent of r"),
        *(must_fail(c) for c in between(0, 0, "paths of another length")),
        *between(1, 1, "with projections by a GRU, n = d"),
    ],
    exact=True,
    fixed="c8690d8",
    remark="The table leaves out the projections, 4nd²: with them a layer costs as much as a GRU at n = d.",
)
def costs(seed: int) -> Figures:
    """Exponents, paths, and what the table leaves out."""
    found = {}
    for name, (layer, _, _) in LAYERS.items():
        found[f"{name}, exponent of n"] = exponent(SIZES, [flops(layer, n, 32) for n in SIZES])
        found[f"{name}, exponent of d"] = exponent(SIZES, [flops(layer, 32, d) for d in SIZES])
    windows = [2, 4, 8, 16]
    found["convolution, exponent of k"] = exponent(
        windows, [flops(convolution, 64, 32, k=k) for k in windows]
    )
    found["restricted, exponent of r"] = exponent(windows, [flops(restricted, 64, 32, r=r) for r in windows])
    found["paths of another length"] = float(sum(wrong_paths(n) for n in (9, 27, 30, 100)))
    d = 64
    heads = MultiHead(d, 4)

    def projected(x: Tensor) -> Tensor:
        context: Tensor = heads.W_o(three_steps(heads.W_q(x), heads.W_k(x), heads.W_v(x)))
        return context

    gru = nn.GRU(d, d, batch_first=True)
    return found | {"with projections by a GRU, n = d": flops(projected, d, d) / flops(gru, d, d)}
