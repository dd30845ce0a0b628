"""The verdict: from the findings of tests to three conditions, a grade, a sentence, and advice.

    score of a test = (strength − failed) / (passed − failed), from 0 to 1        (`regard.audits.thresholds`)
    score of a condition = mean of its tests, and at most that of a gate (`consistency`); held from ½ on
    grade = mean of the conditions that were tested; None if fewer than two were

Attention is evidence of what a model used as far as it is necessary, hard to manipulate, and works out of its
context: Wiegreffe & Pinter (2019), arXiv:1908.04626, §3–5, from where the three conditions are; that it is a
matter of degree: Jacovi & Goldberg (2020), arXiv:2004.03685, §5.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from regard.audits.register import AUDITS, CONDITIONS, Finding
from regard.audits.thresholds import RAMPS, Ramp

HELD = 0.5
IS, PARTLY = 2 / 3, 1 / 3  # grades from which attention is, or is partly, evidence
State = Literal["held", "failed", "not tested"]
STATES: tuple[State, ...] = ("held", "failed", "not tested")


@dataclass(frozen=True)
class ConditionResult:
    """How one of the three conditions came out."""

    state: State
    score: float | None  # 0 to 1
    tests: dict[str, float]  # the scores it is the mean of


@dataclass(frozen=True)
class Verdict:
    """Grade, answer and conditions."""

    grade: float | None
    answer: str
    conditions: dict[str, ConditionResult]

    @property
    def advice(self) -> list[str]:
        """What is known to help, for each condition that failed."""
        if self.grade is None:
            return ["Give the audit more to test: `intervene`, a model of regard, or training texts."]
        if self.conditions["necessary"].tests.get("consistency", 1.0) < HELD:
            return ["The weights that are shown are not those that are used: show the others."]
        found = [HELPS[name] for name, result in self.conditions.items() if result.state == "failed"]
        more = "Whether it helps here takes another audit: train with it, then regard audit A B."
        return [*found, more] if found else []


def score(name: str, finding: Finding, ramps: Mapping[str, Ramp] = RAMPS) -> float | None:
    """How well a test was passed, 0 to 1; None if it was not made, or is not graded."""
    strength = AUDITS[name].strength(finding)
    if strength is None or name not in ramps:
        return None
    failed, passed = ramps[name]
    if failed == passed:
        return float(strength >= passed if AUDITS[name].better == "higher" else strength <= passed)
    return min(1.0, max(0.0, (strength - failed) / (passed - failed)))


def judge(
    findings: Mapping[str, Finding], name: str = "this attention", ramps: Mapping[str, Ramp] = RAMPS
) -> Verdict:
    """Conditions, grade and answer."""
    found = {test: score(test, finding, ramps) for test, finding in findings.items()}
    conditions: dict[str, ConditionResult] = {}
    for condition in CONDITIONS:
        scores = {
            test: one
            for test, one in found.items()
            if one is not None and AUDITS[test].condition == condition
        }
        graded, gates = ([scores[t] for t in scores if AUDITS[t].gate is gate] for gate in (False, True))
        total = min([fmean(graded), *gates]) if graded else None
        state: State = "not tested" if total is None else "held" if total >= HELD else "failed"
        conditions[condition] = ConditionResult(state, total, scores)
    tested = [result.score for result in conditions.values() if result.score is not None]
    grade = fmean(tested) if len(tested) >= 2 else None
    return Verdict(grade, sentence(grade, name, conditions), conditions)


def sentence(grade: float | None, name: str, conditions: Mapping[str, ConditionResult]) -> str:
    """The answer, in one sentence."""
    if grade is None:
        return f"Too little could be tested to say whether {name} is evidence of what the model used."
    how = "is" if grade >= IS else "is partly" if grade >= PARTLY else "is not"
    ordered = sorted(conditions.items(), key=lambda one: STATES.index(one[1].state))
    reasons = "; ".join(SAYS[condition][result.state] for condition, result in ordered)
    return f"{name[0].upper()}{name[1:]} {how} evidence of what the model used ({grade:.2f} of 1): {reasons}."


SAYS: dict[str, dict[State, str]] = {
    "necessary": {
        "held": "its decisions need these weights",
        "failed": "its decisions hardly need these weights",
        "not tested": "whether decisions need the weights was not tested",
    },
    "hard to manipulate": {
        "held": "other weights seldom give the same predictions",
        "failed": "very different weights give the same predictions",
        "not tested": "whether other weights give the same predictions was not tested",
    },
    "out of context": {
        "held": "the words of high weight matter by themselves",
        "failed": "the words of high weight matter little by themselves",
        "not tested": "whether the words of high weight matter by themselves was not tested",
    },
}

HELPS = {
    "necessary": "Decisions hardly depend on the weights: a hidden state that encodes the whole text can "
    "replace any other. Tie hidden states to their words (--tie), add a masked-language-model loss (--mlm), "
    "or use a model without context (attentive_mlp).",
    "hard to manipulate": "Very different weights give the same predictions. A rationalizer (--model "
    "rationalizer_hardkuma), which predicts from the selected words alone, leaves no such room; tying "
    "(--tie) and diverse hidden states (--diversity) leave less.",
    "out of context": "The words of high weight matter little by themselves. Leave-one-out or integrated "
    "gradients (regard explain) say more about them than the weights; --tie, --diversity or --orthogonal "
    "bring the two closer.",
}
