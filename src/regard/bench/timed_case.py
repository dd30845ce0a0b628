"""A case: one thing measured against another, and what must hold of their ratio."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from regard.bench.timing import Effort


@dataclass(frozen=True)
class Claim:
    """One line of the table of what must hold."""

    says: str
    against: str
    limit: float | None = None  # the ratio must not be above this; None: it is only reported
    aim: float | None = None


@dataclass(frozen=True)
class Measured:
    """What a case found."""

    seconds: float  # of ours
    against_seconds: float  # of the other
    support: float | None = None  # mean number of keys with a weight, where the map is sparse
    mebibytes: float | None = None  # above the inputs; where measured, the ratio is of memory
    against_mebibytes: float | None = None

    @property
    def ratio(self) -> float:
        """Ours over the other's."""
        if self.mebibytes is not None and self.against_mebibytes is not None:
            return self.mebibytes / max(self.against_mebibytes, 1e-9)
        return self.seconds / self.against_seconds


@dataclass(frozen=True)
class Result:
    """A case with what was found, as plain numbers."""

    group: str
    claim: str
    what: str
    against: str
    ratio: float
    limit: float | None
    aim: float | None
    held: bool | None  # None where nothing has to
    seconds: float
    against_seconds: float
    mebibytes: float | None
    against_mebibytes: float | None
    mode: str | None  # forward, or forward + backward
    rows: int | None
    n: int | None
    scale: str | None
    support: float | None

    def json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class TimedCase:
    """Something to measure; nothing is made before `measure`."""

    group: str
    claim: Claim
    what: str
    run: Callable[[Effort], Measured]
    mode: str | None = None
    rows: int | None = None
    n: int | None = None
    scale: str | None = None

    def measure(self, effort: Effort) -> Result:
        """Run the case."""
        found, limit = self.run(effort), self.claim.limit
        return Result(
            group=self.group,
            claim=self.claim.says,
            what=self.what if self.mode is None else f"{self.what}, {self.mode}",
            against=self.claim.against,
            ratio=found.ratio,
            limit=limit,
            aim=self.claim.aim,
            held=None if limit is None else found.ratio <= limit,
            seconds=found.seconds,
            against_seconds=found.against_seconds,
            mebibytes=found.mebibytes,
            against_mebibytes=found.against_mebibytes,
            mode=self.mode,
            rows=self.rows,
            n=self.n,
            scale=self.scale,
            support=found.support,
        )


SCALES = {"normal": 1.0, "peaked": 5.0, "flat": 0.1}  # scores are N(0, 1) times this


def without_peers() -> bool:
    """Whether the `entmax` package is missing."""
    return find_spec("entmax") is None
