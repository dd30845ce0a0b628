"""Figures of claims in files, one per claim: C5.json. Published ones come with the package.

{"claim": "C5", "runs": [{"seed": 5, "figures": {…}, "seconds": 41.2, "commit": "…", "options": {}}, …]}
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.claims.claim import Claim, Figures
from regard.claims.verdict_of_claim import Verdict, judge

PUBLISHED = Path(__file__).parent / "figures"


@dataclass(frozen=True)
class Run:
    """What one seed gave."""

    seed: int
    figures: Figures
    seconds: float
    commit: str = ""  # of the code, where it is known
    options: dict[str, str] = field(default_factory=dict)  # what a user put in the place of ours


@dataclass(frozen=True)
class Record:
    """What is known of a claim."""

    claim: Claim
    runs: tuple[Run, ...] = ()

    def of(self, options: dict[str, str] | None = None) -> list[Run]:
        """The runs with these options, of the seeds that count, in their order."""
        return sorted(
            (run for run in self.runs if run.options == (options or {}) and run.seed in self.claim.seeds),
            key=lambda run: run.seed,
        )

    @property
    def verdict(self) -> Verdict:
        """What the figures of its seeds say."""
        return judge(self.claim, [run.figures for run in self.of()])

    @property
    def settled(self) -> bool:
        """Whether there are as many seeds as are needed."""
        return len(self.of()) >= self.claim.needed

    def including(self, run: Run) -> "Record":
        """With this run; one of the same seed and options is replaced."""
        others = [o for o in self.runs if (o.seed, o.options) != (run.seed, run.options)]
        return Record(self.claim, (*others, run))


def read(claim: Claim, folder: Path = PUBLISHED) -> Record:
    """The record of a claim in a folder; empty if there is no file."""
    file = folder / f"{claim.number}.json"
    if not file.exists():
        return Record(claim)
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        runs = tuple(Run(**run) for run in found.get("runs", []))
        for run in runs:
            for name in claim.deciding:
                if name not in run.figures:
                    raise ValueError(f"seed {run.seed} has no {name!r}")
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file} holds no figures of claims: {error}. Remove it or choose another --to."
        ) from error
    return Record(claim, runs)


def write(record: Record, folder: Path) -> Path:
    """Write a record to its file, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{record.claim.number}.json"
    content: dict[str, Any] = {"claim": record.claim.number}
    content["runs"] = [
        asdict(run) for run in sorted(record.runs, key=lambda run: (str(run.options), run.seed))
    ]
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def agreement(ours: Iterable[Run], theirs: Iterable[Run]) -> float | None:
    """The largest difference of a figure between runs of the same seed; None if there are no such."""
    published = {run.seed: run.figures for run in theirs}
    apart = [
        abs(value - published[run.seed][name])
        for run in ours
        if run.seed in published
        for name, value in run.figures.items()
        if name in published[run.seed] and value == value
    ]
    return max(apart, default=None)


def agrees(ours: Verdict, theirs: Verdict) -> bool | None:
    """Whether two verdicts are the same, part by part; None where one is of too few seeds."""
    return None if ours.few or theirs.few else ours == theirs
