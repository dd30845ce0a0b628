"""A task of long sequences: examples as tokens, generated without end or read from a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from regard.core.registry import Table
from regard.core.tokens import UNK

FIRST = UNK + 1  # the first token that is a task's own
Split = Literal["train", "validation", "test"]


class LongExample(NamedTuple):
    """Tokens, for a pair those of the second text too, and the class."""

    tokens: list[int]
    label: int
    second: list[int] | None = None


Simpler = Callable[[Random, LongExample, float], LongExample]  # for a training so far, from 0 to 1


@dataclass(frozen=True)
class LongTask:
    """A task; `generate(random)` makes one example, `read(file)` gives those of a file.

    Where a file is given, it is the test set if examples like it can be generated for training
    (`like(examples of the file)` is then the generator), else it is split. `part(random, example, level)` is
    a simpler example that is part of one, of a level from 0 to 1: what is learned from first.
    """

    name: str
    says: str
    vocabulary: int
    classes: int
    generate: Callable[[Random], LongExample] | None
    read: Callable[[Path], Sequence[LongExample]]
    chance: float  # the share of the largest class
    pairs: bool = False
    like: Callable[[Sequence[LongExample]], Callable[[Random], LongExample]] | None = None
    part: Callable[[Random, LongExample, float], LongExample] | None = None
    wants: str = ""  # the file it needs, where nothing can be generated

    def splits(self, file: Path | None, seed: int, held: int) -> "Splits":
        """Where training, validation and test examples come from; `held` of each of the last two."""
        if file is None:
            if self.generate is None:
                raise ValueError(f"the task {self.name} needs a file: --data {self.name}={self.wants}.")
            return Splits.generated(self.generate, seed, held)
        examples = list(self.read(file))
        if len(examples) < 10:
            raise ValueError(f"{file}: {self.name} needs at least 10 examples; got {len(examples)}.")
        if self.like is not None:
            made = Splits.generated(self.like(examples), seed, held)
            return Splits(made.train, made.validation, _some(examples, held * 2, seed), made.known)
        order = list(range(len(examples)))
        Random(seed).shuffle(order)
        part = min(held, max(1, len(order) // 10))
        test, validation, train = order[:part], order[part : 2 * part], order[2 * part :]
        chosen = [examples[i] for i in train]

        def stream(random: Random) -> LongExample:
            return chosen[random.randrange(len(chosen))]

        return Splits(stream, [examples[i] for i in validation], [examples[i] for i in test], set())


@dataclass(frozen=True)
class Splits:
    """A source of training examples, and two lists that it never gives."""

    train: Callable[[Random], LongExample]
    validation: list[LongExample]
    test: list[LongExample]
    known: set[tuple[int, ...]]  # what is held out

    @staticmethod
    def generated(make: Callable[[Random], LongExample], seed: int, held: int) -> "Splits":
        """All from a generator; held-out examples are made first, and left out of training."""
        parts: list[list[LongExample]] = []
        known: set[tuple[int, ...]] = set()
        for number, name in enumerate(("validation", "test")):
            random = Random(f"{name} {seed} {number}")
            found: list[LongExample] = []
            while len(found) < held:
                one = make(random)
                key = tuple(one.tokens)
                if key not in known:
                    known.add(key)
                    found.append(one)
            parts.append(found)

        def fresh(random: Random) -> LongExample:
            while tuple((one := make(random)).tokens) in known:
                pass
            return one

        return Splits(fresh, parts[0], parts[1], known)


class LongBatches:
    """Training batches without end, of similar lengths: of `group` batches at a time, sorted.

    Examples are as they are, or made simpler depending on how far training is.
    """

    def __init__(self, splits: Splits, size: int, seed: int, group: int = 16, simpler: Simpler | None = None):
        self.make, self.size, self.group, self.simpler = splits.train, size, group, simpler
        self.random = Random(f"train {seed}")
        self.left: list[list[LongExample]] = []

    def draw(self, progress: float = 1.0) -> list[LongExample]:
        """The next batch; `progress` goes from 0 to 1."""
        if not self.left:
            made = (self.example(progress) for _ in range(self.size * self.group))
            pool = sorted(made, key=lambda e: len(e.tokens))
            self.left = [pool[i : i + self.size] for i in range(0, len(pool), self.size)]
            self.random.shuffle(self.left)
        return self.left.pop(0)

    def example(self, progress: float) -> LongExample:
        """The next example."""
        made = self.make(self.random)
        return made if self.simpler is None else self.simpler(self.random, made, progress)


def _some(examples: list[LongExample], count: int, seed: int) -> list[LongExample]:
    if len(examples) <= count:
        return examples
    return Random(seed).sample(examples, count)


LONG_TASKS: Table[LongTask] = Table("task of the arena", {})
