"""Conversion of weights from and to `torch.nn.MultiheadAttention`; the outputs agree up to rounding.

torch packs the three projections into one matrix, [W_q; W_k; W_v], unless keys or values have another width.
Its masks mean the opposite of ours: `regard.masks.from_hidden` converts them.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention import resolve_map
from regard.heads.multi_head import MultiHead
from regard.scores import ScaledDot


def from_torch(
    module: nn.MultiheadAttention,
    *,
    map: str | Callable[..., Tensor] = "softmax",
    score: str | Callable[..., Tensor] = "scaled_dot",
) -> MultiHead:
    """The same attention as a MultiHead, with a copy of the weights: inputs (b, n, width), batch first."""
    if module.bias_k is not None or module.add_zero_attn:
        option = "add_bias_kv" if module.bias_k is not None else "add_zero_attn"
        raise ValueError(f"MultiHead has no {option}. regard.swap(module) keeps it.")
    heads = MultiHead(
        module.embed_dim,
        module.num_heads,
        key_width=module.kdim,
        value_width=module.vdim,
        score=score,
        map=map,
        dropout=module.dropout,
        bias=module.in_proj_bias is not None,
    )
    heads.to(module.out_proj.weight).train(module.training)
    inputs = (heads.W_q, heads.W_k, heads.W_v)
    with torch.no_grad():
        for layer, weight, bias in zip(inputs, *projections(module), strict=True):
            _copy(layer, weight, bias)
        _copy(heads.W_o, module.out_proj.weight, module.out_proj.bias)
    return heads


def to_torch(heads: MultiHead) -> nn.MultiheadAttention:
    """The same attention as a `nn.MultiheadAttention`, batch first, with a copy of the weights.

    torch has only softmax of the scaled dot product. Shared key and value heads are repeated.
    """
    if heads.map is not resolve_map("softmax") or not isinstance(heads.score, ScaledDot):
        raise ValueError(
            "nn.MultiheadAttention has only the softmax of a scaled dot product; "
            f"got map={_name(heads.map)}, score={_name(heads.score)}. "
            "To convert the weights all the same, set heads.map = regard.maps.softmax first."
        )
    own = {"sink": heads.sink, "scale": heads.score.scale, "value_term": heads.value_term}
    for name, given in own.items():
        if given is not None:
            raise ValueError(f"nn.MultiheadAttention has no {name}: these heads cannot be converted.")
    module = nn.MultiheadAttention(
        heads.width,
        heads.heads,
        dropout=heads.dropout,
        bias=heads.W_o.bias is not None,
        kdim=heads.key_width,
        vdim=heads.value_width,
        batch_first=True,
    )
    module.to(heads.W_o.weight).train(heads.training)
    with torch.no_grad():
        weights, biases = projections(module)
        for layer, weight, bias in zip((heads.W_q, heads.W_k, heads.W_v), weights, biases, strict=True):
            weight.copy_(_for_every_head(layer.weight, heads))
            if bias is not None:
                bias.copy_(_for_every_head(layer.bias, heads))
        module.out_proj.load_state_dict(heads.W_o.state_dict())
    return module


def projections(module: nn.MultiheadAttention) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
    """(W_q, W_k, W_v) and their biases, as views of torch's packed parameters."""
    if module.in_proj_weight is None:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    else:
        weights = module.in_proj_weight.chunk(3)
    return weights, (None, None, None) if module.in_proj_bias is None else module.in_proj_bias.chunk(3)


def _copy(layer: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    layer.weight.copy_(weight)
    if bias is not None:
        layer.bias.copy_(bias)


def _for_every_head(tensor: Tensor, heads: MultiHead) -> Tensor:
    """A projection (shared · each, ...) to shared key/value heads, repeated: (heads · each, ...)."""
    each, times = heads.width // heads.heads, heads.width // tensor.shape[0]
    return tensor.reshape(-1, each, *tensor.shape[1:]).repeat_interleave(times, 0).flatten(0, 1)


def _name(thing: Callable[..., Tensor]) -> str:
    return getattr(thing, "__name__", type(thing).__name__)
