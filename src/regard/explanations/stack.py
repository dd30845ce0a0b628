"""Weights, layer upon layer, and one score for each token from them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.tasks.subject import real


@dataclass(frozen=True, eq=False)
class Layer:
    """What one attention did."""

    weights: Tensor  # (b, h, m, n); 0 in rows and columns of padding
    residual: bool  # whether what it found is added to what was there
    transformed: Tensor | None = None  # (b, h, n, d): what each place adds if looked at with weight 1

    def mixed(self, lengths: Tensor) -> Tensor:
        """½W + ½I, or W without residual, heads averaged: (b, m, n)."""
        weights = self.weights.mean(1)
        if not self.residual:
            return weights
        there = real(lengths, weights.shape[-1]).to(weights.dtype)
        return 0.5 * weights + 0.5 * torch.diag_embed(there)


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers, the first first."""

    layers: list[Layer]
    lengths: Tensor  # (b,), of what the first layer looks at
    ahead: int = 0  # places before the first word, as BERT's [CLS]
    reader: int = -1  # the layer that reads the words
    causal: bool = False  # a decoder: no place may look at a later one

    def at(self, layer: int | None) -> "Stack":
        """One layer alone; default: the one that reads the words."""
        number = self.reader if layer is None else layer
        if not -len(self.layers) <= number < len(self.layers):
            raise ValueError(f"layer must be from 0 to {len(self.layers) - 1}; got {layer}.")
        return replace(self, layers=[self.layers[number]])

    def uniform(self) -> "Stack":
        """The same decoder if it looked at all it can see alike."""

        def level(layer: Layer) -> Layer:
            n = layer.weights.shape[-1]
            seen = real(self.lengths, n).unsqueeze(-1).expand(-1, n, n).tril()
            weights = seen / seen.sum(-1, keepdim=True).clamp(min=1)
            return Layer(weights.to(layer.weights.dtype).unsqueeze(1), True)

        return replace(self, layers=[level(layer) for layer in self.layers])

    def over_tokens(self, between: Tensor, position: int | None) -> Tensor:
        """Weights between places and tokens (b, m, n) to one score for each token (b, n).

        `position` is the row asked for; negative ones count from the end of each text. Without it: the row of
        the place before the words, if there is one, else the mean over the rows that can see the token.
        """
        b, m, n = between.shape
        row = self.row(position)
        if row is not None:
            row = (
                row if m == self.layers[-1].weights.shape[-2] else torch.zeros_like(row)
            )  # it alone was found
            return between[torch.arange(b, device=between.device), row, self.ahead :]
        looks = torch.ones_like(between, dtype=torch.bool)
        if self.layers[-1].residual:
            looks &= real(self.lengths, m).unsqueeze(-1)
        if self.causal:
            looks = looks.tril()
        return between.sum(-2) / looks.sum(-2).clamp(min=1)

    def row(self, position: int | None) -> Tensor | None:
        """The row that is asked for in each text, (b,); None if it is all of them."""
        top = self.layers[-1]
        ends = self.lengths if top.residual else torch.full_like(self.lengths, top.weights.shape[-2])
        if position is None:
            return torch.zeros_like(ends) if self.ahead else None
        row = torch.full_like(ends, position + self.ahead) if position >= 0 else ends + position
        if not bool(((row >= self.ahead) & (row < ends)).all()):
            least = int(ends.min()) - self.ahead
            raise ValueError(
                f"position must be within each text, the shortest has {least} places; got {position}."
            )
        return row


def explained(stack: Stack, between: Callable[[Stack], Tensor], position: int | None) -> Tensor:
    """One score for each token (b, n) from weights between places and tokens.

    In a decoder early places get more by construction: more places can see them, by more paths. So what is
    found is divided by what a decoder would give that looks at all it can see alike: 1 is as much as that.
    """
    found = between(stack)
    if stack.causal:
        level = between(stack.uniform())
        found = torch.where(level > 0, found / level.clamp(min=torch.finfo(level.dtype).tiny), 0)
    return stack.over_tokens(found, position)
