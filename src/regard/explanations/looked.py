"""The layers of a model, or of bare weights.

A model is asked once, with `record`. Bare weights are a tensor for each layer, the first first, (b, h, m, n)
or (b, m, n), as models of Hugging Face return them. A layer that looks from places to the same places (m = n)
is taken for one of a Transformer, where what was found is added to what was there. Whether it is a decoder
the masks of a model say; bare weights are a decoder's if no place of any text looks at a later one.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attended
from regard.core.attention_paths import attention_paths
from regard.core.errors import ShapeError
from regard.core.recorders import Attentive
from regard.core.shapes import check_float
from regard.explanations.stack import Layer, Stack
from regard.explanations.subject import Second, Subject, checked_lengths, real, subject
from regard.recording import record


def paths(model: nn.Module) -> list[str]:
    """The attentions that explanations are made of: self-attentions, then those that read the tokens."""
    if reader := attention_paths(model).get("reader"):
        layers = attention_paths(model).get("self", [])
        return [*layers, *(path for path in reader if path not in layers)]
    return [path for path, part in model.named_modules() if isinstance(part, Attentive)]


def attentive(model: Any, what: str) -> list[str]:
    """The paths of a model's attentions, or an error that says what to use without any."""
    found = paths(model) if isinstance(model, nn.Module) else []
    if not found:
        kind = "this model has" if isinstance(model, nn.Module) else "a function shows"
        raise ValueError(
            f"{what} needs attention, and {kind} none that regard can see. Give its weights, a tensor "
            "(b, h, m, n) for each layer, or use gradient or leave_one_out."
        )
    return found


def stack(
    model: Any, inputs: Any, lengths: Any, what: str, second: Second | None = None, *, values: bool = False
) -> Stack:
    """The layers of a model on these inputs, or of bare weights; with `values`, what places add as well."""
    if isinstance(model, Tensor | Sequence):
        if values:
            raise ValueError(f"{what} needs a model: bare weights do not say what is looked at with them.")
        return bare(model, lengths)
    found, asked = attentive(model, what), subject(model, inputs, lengths, second)
    with asked.quiet(), torch.no_grad(), record(model, found) as seen:
        asked.outputs()
        called = [path for path, _ in seen.calls]
        order = [
            path
            for path in (found if attention_paths(model).get("reader") else dict.fromkeys(called))
            if seen[path]
        ]
        if not order:
            raise ValueError(f"{what} needs attention, and none of {', '.join(found)} was called.")
        return _stacked(asked, order, {path: seen[path][-1] for path in order}, values)


def _stacked(asked: Subject, order: list[str], seen: dict[str, Attended], values: bool) -> Stack:
    n, named = asked.inputs.shape[1], attention_paths(asked.model)
    reader = named.get("reader")
    layers, causal = [], True
    for path in order:
        weights, visible = _with_heads(seen[path].weights), seen[path].visible
        residual = path in named.get("self", []) if reader else weights.shape[-2] == weights.shape[-1]
        transformed = _transformed(asked.model.get_submodule(path), seen[path]) if values else None
        layers.append(Layer(weights, residual, transformed))
        m = weights.shape[-2]
        causal &= residual and visible is not None and _no_later(visible.expand(*visible.shape[:-2], m, -1))
    ahead = max(layers[0].weights.shape[-1] - n, 0)
    top = order.index(reader[0]) if reader else -1
    return Stack(_cleaned(layers, asked.lengths + ahead), asked.lengths + ahead, ahead, top, causal)


def _transformed(module: Any, seen: Attended) -> Tensor:
    """The values of every head through the output projection, where there is one: (b, h, n, d)."""
    values, out = _with_heads(seen.values), getattr(module, "W_o", getattr(module, "out_proj", None))
    if out is None:
        return values
    W = out.weight.detach().unflatten(-1, (values.shape[1], -1))  # (d, h, each)
    return torch.einsum("bhne,dhe->bhnd", values, W.to(values.dtype))


def bare(weights: Any, lengths: Tensor | None = None) -> Stack:
    """Weights of layers, the first first, each (b, h, m, n) or (b, m, n), or of one alone."""
    given = [weights] if isinstance(weights, Tensor) else list(weights)
    if not given:
        raise ValueError("weights must have at least one layer; got none.")
    layers = []
    for number, layer in enumerate(given):
        if layer is None:
            raise TypeError(
                f"layer {number} has no weights. "
                'Models of Hugging Face give them with attn_implementation="eager".'
            )
        check_float(f"weights of layer {number}", layer)
        if layer.dim() not in (3, 4) or 0 in layer.shape:
            raise ShapeError(f"weights of layer {number} must be (b, h, m, n); got {tuple(layer.shape)}.")
        if not bool((layer.isfinite() & (layer >= 0)).all()):
            raise ValueError(f"weights of layer {number} must be at least 0 and finite. Are these scores?")
        layer = _with_heads(layer.detach())
        layers.append(Layer(layer, layer.shape[-2] == layer.shape[-1]))
    lengths = checked_lengths(layers[0].weights[:, 0].mT, lengths)
    causal = all(layer.residual and _no_later(layer.weights) for layer in layers)
    return Stack(_cleaned(layers, lengths), lengths, causal=causal)


def _no_later(between: Tensor) -> bool:
    """Whether nothing of (..., n, n) is above the diagonal."""
    return between.shape[-1] > 1 and not bool(between.triu(1).any())


def _cleaned(layers: list[Layer], lengths: Tensor) -> list[Layer]:
    """Padding looks at nothing and is not looked at; every layer looks at what the one below made."""
    for below, above in pairwise(layers):
        (b, _, m, _), (c, _, _, n) = below.weights.shape, above.weights.shape
        if (b, m) != (c, n):
            raise ShapeError(
                f"each layer must look at what the one below made: one makes {m} places of {b} texts, "
                f"the next looks at {n} of {c}."
            )
    cleaned = []
    for layer in layers:
        weights, (m, n) = layer.weights, layer.weights.shape[-2:]
        if layer is layers[0] or layer.residual:
            weights = weights * real(lengths, n).view(-1, 1, 1, n)
        if layer.residual:
            weights = weights * real(lengths, m).view(-1, 1, m, 1)
        cleaned.append(replace(layer, weights=weights))
    return cleaned


def _with_heads(x: Tensor) -> Tensor:
    """(b, m, n) as (b, 1, m, n)."""
    return x.unsqueeze(1) if x.dim() == 3 else x
