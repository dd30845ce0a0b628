"""What figures say of a claim: holds, holds if …, fails, not settled.

A part of the sentence holds if each of its conditions is met in the mean of five seeds and in four of them.
It is not settled if only one of the two is so, if there are fewer seeds, or if a control did not fail.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.claims.claim import Claim, Figures, Measured

WORDS = HOLDS, HOLDS_IF, FAILS, NOT_SETTLED = "holds", "holds if …", "fails", "not settled"


@dataclass(frozen=True)
class Verdict:
    """One of WORDS, and why."""

    word: str
    why: str = ""
    few: bool = False  # fewer seeds than settle it, or none

    def __str__(self) -> str:
        if self.word == HOLDS_IF:
            return f"holds {self.why}" if self.why.startswith("in part: ") else f"holds if {self.why}"
        return f"{self.word}: {self.why}" if self.why else self.word


def measured(runs: Sequence[Figures]) -> Measured:
    """Figures of several seeds as arrays (seeds,) by name."""
    names = [name for name in runs[0] if all(name in run for run in runs)] if runs else []
    return {name: np.array([run[name] for run in runs], dtype=float) for name in names}


def judge(claim: Claim, runs: Sequence[Figures]) -> Verdict:
    """The verdict of a claim, given the figures of its seeds."""
    if not runs:
        return Verdict(NOT_SETTLED, "it has not been run", few=True)
    found = settled(claim, measured(runs))
    if len(runs) < claim.needed:
        return Verdict(NOT_SETTLED, f"{len(runs)} of {claim.needed} seeds; so far: {found}", few=True)
    return found


def settled(claim: Claim, figures: Measured) -> Verdict:
    """The verdict, however few the seeds are."""
    blind = [str(c) for c in claim.conditions if c.control and not c.met(figures)]
    if blind:
        return Verdict(NOT_SETTLED, f"the control did not come out, {'; '.join(blind)}")
    parts: dict[str, list[bool | None]] = {}
    for condition in claim.conditions:
        if not condition.control:
            parts.setdefault(condition.part, []).append(condition.met(figures))
    held = [part for part, met in parts.items() if all(met)]
    failed = [part for part, met in parts.items() if False in met]
    unsure = [part for part in parts if part not in held and part not in failed]
    if len(held) == len(parts):
        return Verdict(HOLDS_IF, claim.only_if) if claim.only_if else Verdict(HOLDS)
    if held:
        left = "".join(
            f"; {word}: {', '.join(some)}"
            for word, some in (("not", failed), ("not settled", unsure))
            if some
        )
        return Verdict(HOLDS_IF, f"in part: {', '.join(held)}{left}")
    if failed:
        return Verdict(FAILS, f"not settled: {', '.join(filter(None, unsure))}" if any(unsure) else "")
    return Verdict(NOT_SETTLED, "the mean and four of five seeds do not agree")
