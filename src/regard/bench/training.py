"""Training against a plain loop and JoeyNMT: the same batches, then each with its own kind of batches.

Pairs are invented: ids at random, lengths lognormal (median 20, σ = ½, at most 100), the target about as long
as the source. What is compared is seconds per target token.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice

import numpy as np

from regard.bench.case import Case, Claim, Measured
from regard.bench.timing import Effort, medians
from regard.bench.training_peers import WORDS, Learner, Trainer, has_joey, joey, ours, plain
from regard.data.batches import Batch, Batches

GROUPS = ["same", "batches"]
PAIRS, TOKENS, SOME = 20_000, 2048, 4  # pairs in all, positions in a batch, batches in a pass
LOOP = "torch.nn.Transformer, plain loop"


def cases(only: list[str] | None = None) -> list[Case]:
    """The cases of these groups (default: all)."""
    makers: dict[str, Callable[[], Iterator[Case]]] = {"same": _same, "batches": _batches}
    return [case for group in only or GROUPS for case in makers[group]()]


def missing() -> list[str]:
    """What is not installed, a line each."""
    return [] if has_joey() else ["joeynmt is not installed: pip install --no-deps joeynmt, in a trial venv"]


def _same() -> Iterator[Case]:
    what = "training on the same batches, of similar length"
    yield Case("same", Claim(what, LOOP, 1 / 0.97), what, partial(_against, plain))
    if has_joey():
        yield Case("same", Claim(what, "JoeyNMT", 1 / 1.1), what, partial(_against, joey))


def _batches() -> Iterator[Case]:
    shares = [f"{padding(batches):.2f}" for batches in (similar(), random())]
    what = "training, batches of similar length against random ones"
    says = f"{what} (padding {' against '.join(shares)})"
    yield Case("batches", Claim(what, LOOP, 1 / 2.5), says, _with_own_batches)


def _against(other: Callable[[], Learner], effort: Effort) -> Measured:
    return _compared(Trainer(ours(), similar()), Trainer(other(), similar()), effort)


def _with_own_batches(effort: Effort) -> Measured:
    return _compared(Trainer(ours(), similar()), Trainer(plain(), random()), effort)


def _compared(one: Trainer, other: Trainer, effort: Effort) -> Measured:
    """Seconds per thousand target tokens."""
    seconds, others = medians([one, other], effort)
    return Measured(1e3 * seconds / one.tokens, 1e3 * others / other.tokens)


class Invented:
    """A corpus in memory, as `Batches` reads it."""

    def __init__(self, pairs: int = PAIRS, seed: int = 0):
        chance = np.random.default_rng(seed)
        source = np.exp(chance.normal(np.log(20), 0.5, pairs)).clip(2, 100)
        target = (source * np.exp(chance.normal(0, 0.15, pairs))).clip(2, 100)
        self.lengths = np.stack([source, target], 1).astype(np.int64)
        self.offsets = np.concatenate([np.zeros((1, 2), np.int64), self.lengths.cumsum(0)])
        self.source, self.target = (chance.integers(4, WORDS, size) for size in self.lengths.sum(0))

    def __len__(self) -> int:
        return len(self.lengths)


@cache
def _corpus() -> Batches:
    return Batches(Invented(), TOKENS, seed=0)  # type: ignore[arg-type]


def similar() -> list[Batch]:
    """Some of our batches."""
    return list(islice(_corpus().epoch(0), SOME))


def random() -> list[Batch]:
    """Batches of pairs as they come, as many as fit."""
    lengths = _corpus().encoded.lengths + 1
    found: list[Batch] = []
    some: list[int] = []
    for pair in np.random.default_rng(1).permutation(len(lengths)):
        if (len(some) + 1) * int(lengths[[*some, pair]].max()) > TOKENS:
            found.append(_corpus()._batch(np.array(some)))
            some = []
        if len(found) == SOME:
            break
        some.append(int(pair))
    return found


def padding(batches: list[Batch]) -> float:
    """The share of padding among target positions."""
    return 1 - sum(b.tokens for b in batches) / sum(b.target_in.numel() for b in batches)
