"""Splits of generated examples: a hash of the source decides, the same for every seed."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import repeat
from random import Random
from typing import Literal, TypeVar, get_args

Split = Literal["train", "valid", "test"]
HELD_OUT = {"test": range(16), "valid": range(16, 32), "train": range(32, 256)}  # of a one-byte hash

E = TypeVar("E")


def stream(draw: Callable[[Random], E], split: Split, seed: int, key: str = "source") -> Iterator[E]:
    """Draw examples endlessly and yield those of a split; 14 of 16 are in train, 1 in valid, 1 in test."""
    if split not in HELD_OUT:
        raise ValueError(f"split must be one of {', '.join(get_args(Split))}; got {split!r}.")

    def ours(example: E) -> bool:
        return blake2b(getattr(example, key).encode(), digest_size=1).digest()[0] in HELD_OUT[split]

    return filter(ours, map(draw, repeat(Random(f"{split} {seed}"))))
