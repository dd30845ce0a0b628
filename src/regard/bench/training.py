"""Training against a plain loop and JoeyNMT: the same batches, then each with its own kind of batches.

Pairs are invented: ids at random, lengths lognormal (median 20, σ = ½, at most 100), the target about as long
as the source. What is compared is seconds per target token.
"""

import weakref
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.bench.training_peers import WORDS, Learner, Trainer, has_joey, joey, ours, plain
from regard.core.tokens import EOS
from regard.data.batches import Batch, Batches
from regard.data.encoded import Encoded
from regard.data.fields import token_field

GROUPS = ["same", "batches"]
PAIRS, TOKENS, SOME = 20_000, 2048, 4  # pairs in all, positions in a batch, batches in a pass
LOOP = "torch.nn.Transformer, plain loop"


def cases(only: list[str] | None = None) -> list[TimedCase]:
    """The cases of these groups (default: all)."""
    makers: dict[str, Callable[[], Iterator[TimedCase]]] = {"same": _same, "batches": _batches}
    return [case for group in only or GROUPS for case in makers[group]()]


def missing(only: list[str]) -> list[str]:
    """What is not installed, a line each."""
    if "same" not in only or has_joey():
        return []
    return ["joeynmt is not installed: pip install --no-deps joeynmt, in a trial venv"]


def _same() -> Iterator[TimedCase]:
    what = "training on the same batches, of similar length"
    yield TimedCase("same", Claim(what, LOOP, 1 / 0.97), what, partial(_against, plain))
    if has_joey():
        yield TimedCase("same", Claim(what, "JoeyNMT", 1 / 1.1), what, partial(_against, joey))


def _batches() -> Iterator[TimedCase]:
    shares = [f"{padding(batches):.2f}" for batches in (similar(), random())]
    what = "training, batches of similar length against random ones"
    says = f"{what} (padding {' against '.join(shares)})"
    yield TimedCase("batches", Claim(what, LOOP, 1 / 2.5), says, _with_own_batches)


def _against(other: Callable[[], Learner], effort: Effort) -> Measured:
    return _compared(Trainer(ours(), similar()), Trainer(other(), similar()), effort)


def _with_own_batches(effort: Effort) -> Measured:
    return _compared(Trainer(ours(), similar()), Trainer(plain(), random()), effort)


def _compared(one: Trainer, other: Trainer, effort: Effort) -> Measured:
    """Seconds per thousand target tokens."""
    seconds, others = medians([one, other], effort)
    return Measured(1e3 * seconds / one.tokens, 1e3 * others / other.tokens)


@cache
def _corpus() -> Batches:
    """Pairs of random tokens, encoded on disk for as long as the process lasts."""
    chance = np.random.default_rng(0)
    source = np.exp(chance.normal(np.log(20), 0.5, PAIRS)).clip(2, 100)
    target = (source * np.exp(chance.normal(0, 0.15, PAIRS))).clip(2, 100)
    sizes = zip(source.astype(int), target.astype(int), strict=True)
    rows = (
        {"source": chance.integers(4, WORDS, n), "target": [*chance.integers(4, WORDS, m), EOS]}
        for n, m in sizes
    )
    folder = TemporaryDirectory(prefix="regard-bench-")
    weakref.finalize(_corpus, folder.cleanup)
    fields = {"source": token_field(WORDS), "target": token_field(WORDS)}
    return Batches(Encoded.make(rows, fields, Path(folder.name) / "pairs"), TOKENS, seed=0)


def similar() -> list[Batch]:
    """Some of our batches."""
    return list(islice(_corpus().epoch(0), SOME))


def random() -> list[Batch]:
    """Batches of pairs as they come, as many as fit."""
    lengths = _corpus().encoded.lengths
    found: list[Batch] = []
    some: list[int] = []
    for pair in np.random.default_rng(1).permutation(len(lengths)):
        if (len(some) + 1) * int(lengths[[*some, pair]].max()) > TOKENS:
            found.append(_corpus().batch(np.array(some)))
            some = []
        if len(found) == SOME:
            break
        some.append(int(pair))
    return found


def padding(batches: list[Batch]) -> float:
    """The share of padding among target positions."""
    real = sum(int(batch.lengths["target"].sum()) for batch in batches)
    return 1 - real / sum(batch["target"].numel() for batch in batches)
