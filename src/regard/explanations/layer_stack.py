"""Attention weights layer upon layer, of a model or bare, and from them one score for each token.

A model is called once, with `record`. Bare weights are a tensor for each layer, the first first, (b, h, m, n)
or (b, m, n), as models of Hugging Face return them. A layer with as many queries as keys (m = n) is taken for
one of a Transformer, with a residual connection.

Whether it is a decoder, in which no position may attend to a later one, is said by `causal`; a model that
masks its self-attention with `Causal()` has said it. Weights cannot tell: sparse ones can be 0 by chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import Attended
from regard.core.errors import ShapeError
from regard.core.recorders import OUTPUT, attention_paths
from regard.core.shapes import check_float
from regard.heads import MultiHead
from regard.masks import Causal
from regard.models.subject import (
    Second,
    Subject,
    checked_lengths,
    eval_mode,
    explained_attentions,
    real,
    subject,
)
from regard.recording import record

Position = int | Literal["all"] | None


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention."""

    weights: Tensor  # (b, h, m, n); 0 in rows and columns of padding
    residual: bool  # whether its input is added to its output
    transformed: Tensor | None = None  # (b, h, n, d): what each key adds to the output at weight 1

    def mixed(self, lengths: Tensor) -> Tensor:
        """W + I, or W without residual, heads averaged, each row divided by its sum: (b, m, n)."""
        weights = self.weights.mean(1)
        if self.residual:
            weights = weights + torch.diag_embed(real(lengths, weights.shape[-1]).to(weights.dtype))
        sums = weights.sum(-1, keepdim=True)
        return torch.where(sums > 0, weights / torch.where(sums > 0, sums, 1), 0)


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers, the first first."""

    layers: list[Layer]
    lengths: Tensor  # (b,), of the keys of the first layer
    ahead: int = 0  # positions before the first token, as BERT's [CLS]
    behind: int = 0  # positions after the last token, as BERT's [SEP]
    reader: int = -1  # the layer that reads the tokens
    causal: bool = False  # a decoder: no position attends to a later one
    last: bool = False  # what is explained is made from the last position of each text

    def at(self, layer: int | None) -> "Stack":
        """One layer alone; default: the one that reads the tokens."""
        number = self.reader if layer is None else layer
        if not -len(self.layers) <= number < len(self.layers):
            raise ValueError(f"layer must be from 0 to {len(self.layers) - 1}; got {layer}.")
        return replace(self, layers=[self.layers[number]])

    def uniform(self) -> "Stack":
        """The same decoder with uniform attention over all visible positions."""

        def level(layer: Layer) -> Layer:
            n = layer.weights.shape[-1]
            visible = real(self.lengths, n).unsqueeze(-1).expand(-1, n, n).tril()
            weights = visible / visible.sum(-1, keepdim=True).clamp(min=1)
            return Layer(weights.to(layer.weights.dtype).unsqueeze(1), True)

        return replace(self, layers=[level(layer) for layer in self.layers])

    def over_tokens(self, between: Tensor, position: Position) -> Tensor:
        """Weights between positions and tokens (b, m, n) to one score for each token (b, n).

        `position` selects a row; negative ones count from the end of each text. Without it: the row of the
        position before the tokens, if there is one, else the mean over the rows that can see the token.
        "all" keeps the matrix, with positions before the tokens.
        """
        b, m, n = between.shape
        if position == "all":
            return between
        row = self.row(position)
        if row is not None:
            if m != self.layers[-1].weights.shape[-2]:  # this row alone was computed
                row = torch.zeros_like(row)
            found = between[torch.arange(b, device=between.device), row, self.ahead : n - self.behind]
            own = real(self.lengths - self.ahead - self.behind, found.shape[-1])
            return found if not self.behind else torch.where(own, found, 0)
        visible = torch.ones_like(between, dtype=torch.bool)
        if self.layers[-1].residual:
            visible &= real(self.lengths, m).unsqueeze(-1)
        if self.causal:
            visible = visible.tril()
        return between.sum(-2) / visible.sum(-2).clamp(min=1)

    def row(self, position: Position) -> Tensor | None:
        """The selected row of each text, (b,); None for all of them."""
        if isinstance(position, str):
            if position != "all":
                raise ValueError(f'position must be a number or "all"; got {position!r}.')
            return None
        top = self.layers[-1]
        first = self.ahead if top.residual else 0  # the rows of a decoder are its own
        ends = self.lengths if top.residual else torch.full_like(self.lengths, top.weights.shape[-2])
        if position is None and self.last:
            position = -1
        if position is None:
            return torch.zeros_like(ends) if self.ahead else None
        row = torch.full_like(ends, position + first) if position >= 0 else ends + position
        if not bool(((row >= first) & (row < ends)).all()):
            least = int(ends.min()) - first
            raise ValueError(
                f"position must be within each text, the shortest has {least} places; got {position}."
            )
        return row


def explained(stack: Stack, between: Callable[[Stack], Tensor], position: Position) -> Tensor:
    """One score for each token (b, n) from weights between positions and tokens; the matrix for "all".

    In a decoder early tokens get more by construction: more positions can see them, by more paths. So the
    scores are divided by those of a decoder with uniform attention: 1 is as much as that.
    """
    found = between(stack)
    if stack.causal:
        level = between(stack.uniform())
        found = torch.where(level > 0, found / level.clamp(min=torch.finfo(level.dtype).tiny), 0)
    return stack.over_tokens(found, position)


def stack(
    model: Any, inputs: Any, lengths: Any, what: str, second: Second | None = None, *,
    causal: bool | None = None, values: bool = False,
) -> Stack:  # fmt: skip
    """The layers of a model on these inputs, or of bare weights; with `values`, what keys add as well.

    `causal` says whether it is a decoder; if None, a model is one if all its masks have `Causal()`.
    """
    if isinstance(model, Tensor | Sequence):
        if values:
            raise ValueError(f"{what} needs a model: bare weights come without the values they multiply.")
        return bare(model, lengths, causal=bool(causal))
    found, asked = explained_attentions(model, what), subject(model, inputs, lengths, second)
    with eval_mode(model), torch.no_grad(), record(model, found) as seen:
        asked.outputs()
        called = [path for path, _ in seen.calls]
        paths = found if attention_paths(model).get("reader") else list(dict.fromkeys(called))
        order = [path for path in paths if seen[path]]
        if not order:
            raise ValueError(f"{what} needs attention, and none of {', '.join(found)} was called.")
        return _stacked(asked, order, {path: seen[path][-1] for path in order}, causal, values)


def bare(weights: Any, lengths: Tensor | None = None, *, causal: bool = False) -> Stack:
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
    return Stack(_cleaned(layers, lengths, causal), lengths, causal=causal)


def _stacked(
    asked: Subject, order: list[str], seen: dict[str, Attended], causal: bool | None, values: bool
) -> Stack:
    n, named = asked.inputs.shape[1], attention_paths(asked.model)
    reader = named.get("reader")
    layers, declared = [], True
    for path in order:
        weights, mask = _with_heads(seen[path].over_tokens), seen[path].mask
        residual = path in named.get("self", []) if reader else weights.shape[-2] == weights.shape[-1]
        transformed = _transformed(asked.model.get_submodule(path), seen[path]) if values else None
        layers.append(Layer(weights, residual, transformed))
        declared &= residual and mask is not None and any(isinstance(part, Causal) for part in mask.parts())
    causal = getattr(asked.model, "causal", declared) if causal is None else causal
    ahead, behind = getattr(asked.model, "around", (max(layers[0].weights.shape[-1] - n, 0), 0))
    top = order.index(reader[0]) if reader else -1
    lengths = asked.lengths + ahead + behind
    last = bool(getattr(asked.model, "reads_last", False))
    return Stack(_cleaned(layers, lengths, causal), lengths, ahead, behind, top, causal, last)


def _transformed(module: nn.Module, seen: Attended) -> Tensor:
    """The values of every head through the output projection, where there is one: (b, h, n, d)."""
    values = _with_heads(seen.values)
    if isinstance(module, MultiHead):
        projection: nn.Linear = module.W_o
    elif isinstance(module, nn.MultiheadAttention):
        projection = module.out_proj
    elif OUTPUT in vars(module):
        projection = vars(module)[OUTPUT]
    else:
        return values
    weight = projection.weight.detach()
    weight = weight if isinstance(projection, nn.Linear) else weight.mT  # transformers' Conv1D: (in, out)
    W = weight.unflatten(-1, (values.shape[1], -1))  # (d, h, each)
    return torch.einsum("bhne,dhe->bhnd", values, W.to(values.dtype))


def _cleaned(layers: list[Layer], lengths: Tensor, causal: bool) -> list[Layer]:
    """The layers with 0 in rows and columns of padding, checked: the keys of each are the output below."""
    for below, above in pairwise(layers):
        (b, _, m, _), (c, _, _, n) = below.weights.shape, above.weights.shape
        if (b, m) != (c, n):
            raise ShapeError(
                f"each layer must attend to the output of the one below: one has {m} positions of {b} texts, "
                f"the next attends to {n} of {c}."
            )
    cleaned = []
    for layer in layers:
        weights, (m, n) = layer.weights, layer.weights.shape[-2:]
        if layer is layers[0] or layer.residual:
            weights = weights * real(lengths, n).view(-1, 1, 1, n)
        if layer.residual:
            weights = weights * real(lengths, m).view(-1, 1, m, 1)
        if causal and not (layer.residual and not bool(weights.triu(1).any())):
            raise ValueError("causal=True is for decoders, and here a position attends to a later one.")
        cleaned.append(replace(layer, weights=weights))
    return cleaned


def _with_heads(x: Tensor) -> Tensor:
    """(b, m, n) as (b, 1, m, n)."""
    return x.unsqueeze(1) if x.dim() == 3 else x
