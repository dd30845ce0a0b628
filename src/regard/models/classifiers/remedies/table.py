"""REMEDIES: every remedy by the name of its file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from regard.core.registry import Table

R = TypeVar("R", bound="type[Remedy]")


@dataclass(frozen=True, eq=False)
class Read:
    """What a model with one look has read: what remedies are made of."""

    tokens: Tensor  # (b, n)
    lengths: Tensor  # (b,)
    vectors: Tensor  # of the words, as they were read: (b, n, d)
    states: Tensor  # (b, n, width)
    weights: Tensor  # (b, n)
    model: Any  # a OneQuery


class Remedy(nn.Module):
    """An addition to the loss; `forbidden` are tokens that must not be looked at, for those who ask."""

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__()

    def forward(self, read: Read) -> Tensor:
        """What is added for each text, before its weight λ: (b,)."""
        raise NotImplementedError


REMEDIES: Table["type[Remedy]"] = Table("remedy", {})


def register() -> Callable[[R], R]:
    """Enter a class into REMEDIES under the name of its file."""

    def enter(kind: R) -> R:
        REMEDIES.enter(kind.__module__.rsplit(".", 1)[-1], kind)
        return kind

    return enter
