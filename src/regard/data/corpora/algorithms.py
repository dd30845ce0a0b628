"""Sequences that small algorithms produce: copy, repeat copy, associative recall, n-grams, priority sort.

An example is a text, so that people can type one; vectors of bits are words:

    copy           "0110 1011 0001"               to be said again
    repeat_copy    "0110 1011 x3"                 to be said three times, then an end mark
    recall         "0110 1011 0001 | … ? 0110 …"  items of three vectors; which came after the last one?
    ngrams         "0 1 1 0 1 …"                  the next bit, at every step
    priority_sort  "0110@0.31 1011@-0.77 …"       four fifths of the vectors, by priority, highest first

`posed` turns a text into steps: what is given, flags in channels of their own, what should be said and where.

Graves, Wayne & Danihelka (2014), "Neural Turing Machines", arXiv:1410.5401, §4.
"""

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.core.registry import Table
from regard.data.text import DataError

Bits = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Posed:
    """One sequence of t steps."""

    inputs: Bits  # (t, inputs)
    targets: Bits  # (t, outputs), 0 where nothing is asked
    scored: NDArray[np.bool_]  # (t,): where something is asked
    steps: list[int]  # of each word of the text, the step at which it is read


class Algorithm:
    """What a sequence is, for vectors of so many bits."""

    says: ClassVar[str]
    lengths: ClassVar[tuple[int, int]]  # of examples to train on, unless others are asked for
    unit: ClassVar[str] = "vectors"
    flags: ClassVar[int] = 2
    end: ClassVar[int] = 0  # channels of the output besides the bits

    def __init__(self, bits: int = 8):
        self.bits = bits

    @property
    def inputs(self) -> int:
        """Channels of an input."""
        return self.bits + self.flags

    @property
    def outputs(self) -> int:
        """Channels of an output."""
        return self.bits + self.end

    def draw(self, chance: np.random.Generator, length: int) -> str:
        """The text of an example of this length."""
        raise NotImplementedError

    def posed(self, text: str) -> Posed:
        """The steps of a text; DataError if it is none."""
        raise NotImplementedError

    def words(self, chance: np.random.Generator, count: int) -> list[str]:
        """So many vectors, as words."""
        drawn = chance.integers(0, 2, (count, self.bits))
        return ["".join(map(str, row)) for row in drawn.tolist()]

    def vector(self, word: str) -> list[float]:
        """The bits of a word."""
        if len(word) != self.bits or set(word) - {"0", "1"}:
            raise DataError(f"a vector has {self.bits} bits, 0 or 1; got {word[:40]!r}.")
        return [float(bit) for bit in word]

    def _steps(self, given: list[tuple[list[float], dict[int, float]]], said: list[list[float]]) -> Posed:
        """Vectors with flags (channel: value), then as many empty steps as there is to say."""
        inputs = np.zeros((len(given) + len(said), self.inputs), np.float32)
        targets = np.zeros((len(inputs), self.outputs), np.float32)
        for t, (bits, flags) in enumerate(given):
            inputs[t, : len(bits)] = bits
            for channel, value in flags.items():
                inputs[t, self.bits + channel] = value
        targets[len(given) :] = np.array(said, np.float32).reshape(-1, self.outputs)
        scored = np.arange(len(inputs)) >= len(given)
        return Posed(inputs, targets, scored, list(range(1, len(given) - 1)))  # flags stand at both ends

    def written(self, bits: NDArray[Any]) -> str:
        """What a model says, (m, outputs), as text."""
        return " ".join("".join(map(str, row)) for row in bits[:, : self.bits].astype(int).tolist())


ALGORITHMS: Table[type[Algorithm]] = Table("algorithm", {})


def register(kind: type[Algorithm]) -> type[Algorithm]:
    """Enter an algorithm under its name: RepeatCopy as repeat_copy."""
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__)[1:]
    ALGORITHMS.enter(name, kind)
    return kind


@register
class Copy(Algorithm):
    """A sequence is said again."""

    says, lengths = "a sequence of vectors, said again", (1, 10)

    def draw(self, chance: np.random.Generator, length: int) -> str:
        return " ".join(self.words(chance, length))

    def posed(self, text: str) -> Posed:
        vectors = [self.vector(word) for word in text.split()]
        given = [([], {0: 1.0}), *((vector, {}) for vector in vectors), ([], {1: 1.0})]
        return self._steps(given, vectors)


@register
class RepeatCopy(Algorithm):
    """A sequence is said several times, and then that it is over."""

    says, lengths, end = "the same, said x times, then an end mark", (1, 5), 1

    def draw(self, chance: np.random.Generator, length: int) -> str:
        return " ".join([*self.words(chance, length), f"x{chance.integers(1, self.lengths[1] + 1)}"])

    def posed(self, text: str) -> Posed:
        *words, times = text.split() or [""]
        if not times.startswith("x") or not times[1:].isdecimal() or not 1 <= int(times[1:]) <= 1000:
            raise DataError(f"a sequence to repeat ends in x and a number, as x3; got {times[:40]!r}.")
        vectors = [self.vector(word) for word in words]
        given = [([], {0: 1.0}), *((vector, {}) for vector in vectors), ([], {1: int(times[1:]) / 5})]
        over = [[0.0] * self.bits + [1.0]] if vectors else []
        found = self._steps(given, [[*vector, 0.0] for vector in vectors * int(times[1:])] + over)
        return replace(found, steps=list(range(1, len(given))))  # the last one is that of the number


@register
class Recall(Algorithm):
    """Which item came after this one?"""

    says, lengths, unit = "items of three vectors; which came after the last one?", (2, 6), "items"
    SIZE: ClassVar[int] = 3  # vectors of an item

    def draw(self, chance: np.random.Generator, length: int) -> str:
        items = [" ".join(self.words(chance, self.SIZE)) for _ in range(max(length, 2))]
        return f"{' | '.join(items)} ? {items[chance.integers(len(items) - 1)]}"

    def posed(self, text: str) -> Posed:
        listed, mark, asked = text.partition("?")
        items = [[self.vector(word) for word in item.split()] for item in listed.split("|")]
        query = [self.vector(word) for word in asked.split()]
        if not mark or any(len(item) != self.SIZE for item in [*items, query]):
            raise DataError(
                f"items of {self.SIZE} vectors are separated by |, and the one asked about comes after ?; "
                f"got {text[:60]!r}."
            )
        given: list[tuple[list[float], dict[int, float]]] = []
        for item in items:
            given += [([], {0: 1.0}), *((vector, {}) for vector in item)]
        given += [([], {1: 1.0}), *((vector, {}) for vector in query), ([], {1: 1.0})]
        after = [b for a, b in pairwise(items) if a == query]
        return self._steps(given, after[0] if after else [[0.0] * self.bits] * self.SIZE)


@register
class Ngrams(Algorithm):
    """Bits of a source with a memory of five: what is the next one?"""

    says, lengths, unit = "bits that depend on the five before; the next one at each step", (50, 50), "bits"
    flags = 0
    MEMORY: ClassVar[int] = 5

    def __init__(self, bits: int = 1):
        super().__init__(1)

    def draw(self, chance: np.random.Generator, length: int) -> str:
        table = chance.beta(0.5, 0.5, 2**self.MEMORY)
        drawn = chance.integers(0, 2, self.MEMORY).tolist()
        for _ in range(max(length - self.MEMORY, 0)):
            before = int("".join(map(str, drawn[-self.MEMORY :])), 2)
            drawn.append(int(chance.random() < table[before]))
        return " ".join(map(str, drawn[:length]))

    def posed(self, text: str) -> Posed:
        bits = np.array([self.vector(word) for word in text.split()], np.float32).reshape(-1, 1)
        targets = np.concatenate([bits[1:], np.zeros((min(len(bits), 1), 1), np.float32)])
        scored = np.arange(len(bits)) < len(bits) - 1
        scored &= np.arange(len(bits)) >= self.MEMORY - 1
        return Posed(bits, targets, scored, list(range(len(bits))))


@register
class PrioritySort(Algorithm):
    """Vectors in the order of their priorities."""

    says, lengths, flags = "vectors with priorities; four fifths of them, highest first", (10, 10), 3

    def draw(self, chance: np.random.Generator, length: int) -> str:
        priorities = chance.uniform(-1, 1, length)
        return " ".join(
            f"{word}@{p:.3f}" for word, p in zip(self.words(chance, length), priorities, strict=True)
        )

    def posed(self, text: str) -> Posed:
        pairs = []
        for word in text.split():
            bits, _, number = word.partition("@")
            if not re.fullmatch(r"-?[01](\.[0-9]+)?", number) or not abs(float(number)) <= 1:
                raise DataError(f"a vector has a priority from -1 to 1, as 01@0.5; got {word[:40]!r}.")
            pairs.append((self.vector(bits), float(number)))
        given = [([], {0: 1.0}), *((vector, {2: p}) for vector, p in pairs), ([], {1: 1.0})]
        ranked = sorted(pairs, key=lambda pair: -pair[1])
        return self._steps(given, [vector for vector, _ in ranked[: round(0.8 * len(ranked))]])
