"""Which split a generated pair or text belongs to: a hash of its source decides, for every seed the same."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from operator import attrgetter
from random import Random
from typing import Literal, TypeVar, get_args

Split = Literal["train", "valid", "test"]
HELD_OUT = {"test": range(16), "valid": range(16, 32), "train": range(32, 256)}  # by a hash of one byte

P = TypeVar("P")


def stream(
    draw: Callable[[Random], P], split: Split, seed: int, source: Callable[[P], str] = attrgetter("source")
) -> Iterator[P]:
    """Draw pairs without end and yield those of a split: of 16 pairs 14 are to train, 1 valid and 1 test."""
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
