"""Which split a generated pair belongs to: a hash of its source decides, for every seed the same."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from random import Random
from typing import Literal, get_args

from regard.data.corpora.phrase import Pair

Split = Literal["train", "valid", "test"]
HELD_OUT = {"test": range(16), "valid": range(16, 32), "train": range(32, 256)}  # by a hash of one byte


def stream(draw: Callable[[Random], Pair], split: Split, seed: int) -> Iterator[Pair]:
    """Draw pairs without end and yield those of a split: of 16 pairs 14 are to train, 1 valid and 1 test."""
    if split not in HELD_OUT:
        raise ValueError(f"split must be one of {', '.join(get_args(Split))}; got {split!r}.")
    return _drawn(draw, Random(f"{split} {seed}"), HELD_OUT[split])


def _drawn(draw: Callable[[Random], Pair], chance: Random, ours: range) -> Iterator[Pair]:
    while True:
        pair = draw(chance)
        if blake2b(pair.source.encode(), digest_size=1).digest()[0] in ours:
            yield pair
