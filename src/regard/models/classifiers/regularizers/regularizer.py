"""REGULARIZERS: every regularizer by the name of its file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from regard.core.registry import Table

R = TypeVar("R", bound="type[Regularizer]")


@dataclass(frozen=True, eq=False)
class RegularizerInput:
    """What a regularizer is computed from: a batch, and the forward pass of a model with one query."""

    tokens: Tensor  # (b, n)
    lengths: Tensor  # (b,)
    vectors: Tensor  # word vectors after dropout: (b, n, d)
    states: Tensor  # (b, n, width)
    weights: Tensor  # (b, k, n) of one query, or of the heads of the last layer
    model: Any  # a OneQuery
    forbidden: Tensor | None = None  # (b, n): words of this batch that must get no weight


class Regularizer(nn.Module):
    """A term added to the loss; `forbidden` are tokens that must get no weight, for those that use them."""

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__()

    def forward(self, inputs: RegularizerInput) -> Tensor:
        """The term of each text, before its strength λ: (b,)."""
        raise NotImplementedError


REGULARIZERS: Table["type[Regularizer]"] = Table("regularizer", {})


def register() -> Callable[[R], R]:
    """Enter a class into REGULARIZERS under the name of its file."""

    def enter(kind: R) -> R:
        REGULARIZERS.enter(kind.__module__.rsplit(".", 1)[-1], kind)
        return kind

    return enter
