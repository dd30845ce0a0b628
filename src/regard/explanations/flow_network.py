"""Flow: the maximum flow from each position of the top layer to each token, with weights as capacities.

    F_ij = the maximum flow from position i at the top to token j, with edges of capacity A_l

A_l = (W_l + I) / (the sums of its rows), as for rollout. Rollout multiplies along paths; here the smallest
capacity limits a path, and paths share the capacity of common edges. With two layers
F_ij = Σ_k min(A_2[i, k], A_1[k, j]). Every pair is a problem of its own, solved exactly by `kernels.flow`. Of
a decoder it is divided by the flow of uniform attention: see `layer_stack.explained`.

Abnar & Zuidema (2020), "Quantifying Attention Flow in Transformers", arXiv:2005.00928, §3; that decoders need
a correction: §5.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.explanations.layer_stack import Position, Stack, explained, stack
from regard.explanations.methods import register
from regard.models.subject import Second

LEAST = 1e-14  # of the largest capacity: smaller ones count as 0


@register(needs="weights")
def flow(
    model: Any, inputs: Any = None, lengths: Any = None, *,
    position: Position = None, causal: bool | None = None, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Flow to tokens (b, n), or (b, m, n) with position="all", of a model or of bare weights."""
    layers = stack(model, inputs, lengths, "flow", second, causal=causal)
    return explained(layers, partial(flowing, row=layers.row(position)), position)


def flowing(layers: Stack, row: Tensor | None = None) -> Tensor:
    """F (b, m, n) of all layers, or (b, 1, n) from one row (b,) of the top."""
    widths = [layer.mixed(layers.lengths) for layer in layers.layers]
    if row is not None:
        widths[-1] = widths[-1][torch.arange(len(row), device=row.device), row].unsqueeze(-2)
    return largest_flows(widths)


def largest_flows(widths: list[Tensor]) -> Tensor:
    """The maximum flow (b, m, n) from each top position to each token, through layers (b, m, n).

    Exact to 1e-9 of the largest capacity; not differentiable.
    """
    if len(widths) == 1:
        return widths[0]
    from regard.kernels.attention.flow_kernel import flows
    from regard.kernels.common.pool import over_rows

    first, last = widths[0], widths[-1]
    size = max(max(layer.shape[-2:]) for layer in widths)
    square = [
        F.pad(layer.detach().cpu().double(), (0, size - layer.shape[-1], 0, size - layer.shape[-2]))
        for layer in widths
    ]
    caps = torch.stack(square, 1).contiguous()  # (b, layers, size, size)
    found = torch.empty(len(caps), last.shape[-2], first.shape[-1], dtype=torch.float64)
    least = LEAST * float(caps.max())
    over_rows(
        flows, found.shape[0] * found.shape[1], found.numel() * size, caps.numpy(), found.numpy(), least
    )
    return found.to(first)
