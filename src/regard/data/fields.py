"""Fields: what one example of a task is made of, by name, each with its type and shape.

tokens of a sentence    Field("<u2", (None,))        as long as the sentence is
a class                 Field("<i8", ())             one number
a picture               Field("|u1", (1, 28, 28))    always of this size
boxes in a picture      Field("<f4", (None, 4))      as many as there are
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = Mapping[str, Any]  # the fields of one example: arrays or lists of numbers


@dataclass(frozen=True)
class Field:
    """The type and shape of one field."""

    dtype: str  # NumPy's, little-endian
    shape: tuple[int | None, ...] = (None,)  # None, which may stand first, differs from example to example

    def __post_init__(self) -> None:
        if np.dtype(self.dtype).kind not in "biuf":
            raise ValueError(f"a field holds numbers; got {self.dtype}.")
        if None in self.shape[1:]:
            raise ValueError(f"only the first axis of a field can differ in length; got {self.shape}.")

    @property
    def ragged(self) -> bool:
        """Whether its length differs from example to example."""
        return bool(self.shape) and self.shape[0] is None

    @property
    def fixed(self) -> tuple[int, ...]:
        """The sizes that are the same in all examples."""
        return tuple(size for size in self.shape if size is not None)


def token_field(vocabulary: int) -> Field:
    """A sequence of tokens from a vocabulary of this size."""
    return Field("<u2" if vocabulary <= 2**16 else "<u4")


def number_field(dtype: str = "<i8") -> Field:
    """One number: a class, or what a regression predicts ("<f4")."""
    return Field(dtype, ())
