"""Splits of generated examples: a hash of the source decides, the same for every seed."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from operator import attrgetter
from random import Random
from typing import Literal, TypeVar, get_args

Split = Literal["train", "valid", "test"]
HELD_OUT = {"test": range(16), "valid": range(16, 32), "train": range(32, 256)}  # of a one-byte hash

P = TypeVar("P")


def stream(
    draw: Callable[[Random], P], split: Split, seed: int, source: Callable[[P], str] = attrgetter("source")
) -> Iterator[P]:
    """Draw examples endlessly and yield those of a split; 14 of 16 are in train, 1 in valid, 1 in test."""
    if split not in HELD_OUT:
        raise ValueError(f"split must be one of {', '.join(get_args(Split))}; got {split!r}.")
    return _drawn(draw, Random(f"{split} {seed}"), HELD_OUT[split], source)


def _drawn(
    draw: Callable[[Random], P], chance: Random, ours: range, source: Callable[[P], str]
) -> Iterator[P]:
    while True:
        pair = draw(chance)
        if blake2b(source(pair).encode(), digest_size=1).digest()[0] in ours:
            yield pair
