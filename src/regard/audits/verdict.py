"""The verdict: from the findings of tests to three conditions, a grade, a sentence, and advice.

    score of a test = (strength − failed) / (passed − failed), from 0 to 1        (`regard.audits.thresholds`)
    score of a condition = mean of its tests, and at most the score of its gate; held from ½ on
    answer = "is" evidence if all conditions that were tested held, "is not" if fewer than half of them did,
             "is partly" otherwise; none if fewer than two were tested

The grade follows from the same scores. With l the lowest and h the middle one (of two: the higher), so that
l ≥ ½ if all held, and h ≥ ½ if at least half did,

    grade = ⅔ + ⅔(l − ½)  if l ≥ ½;    ⅓ + ⅓(h − ½)/(h − l)  if l < ½ ≤ h;    ⅔h  if h < ½

so that it is from ⅔ on just where the answer is "is", from ⅓ on where it is "is partly", and rises with both.

A gate (`consistency`) is not part of the mean. In the grade no condition counts for more than the gate: if it
fails, the answer is "is not", whatever else was found.

Attention is evidence of what a model used as far as it is necessary, hard to manipulate, and works out of its
context: Wiegreffe & Pinter (2019), arXiv:1908.04626, §3–5, from where the three conditions are; that it is a
matter of degree: Jacovi & Goldberg (2020), arXiv:2004.03685, §5.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from regard.audits.register import AUDITS, CONDITIONS, Finding
from regard.audits.thresholds import RAMPS, Ramp

HELD = 0.5
IS, PARTLY = 2 / 3, 1 / 3  # grades from which attention is, or is partly, evidence
ANSWERS = ("is not", "is partly", "is")
State = Literal["held", "failed", "not tested"]
STATES: tuple[State, ...] = ("held", "failed", "not tested")


@dataclass(frozen=True)
class ConditionResult:
    """How one of the three conditions came out."""

    state: State
    score: float | None  # 0 to 1
    tests: dict[str, float]  # the scores it is the mean of, and that of a gate, which is not in it


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
        if gate_of(self.conditions) < HELD:
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
        scores = {t: one for t, one in found.items() if one is not None and AUDITS[t].condition == condition}
        graded, gates = ([scores[t] for t in scores if AUDITS[t].gate is gate] for gate in (False, True))
        total = min([fmean(graded), *gates]) if graded else None
        state: State = "not tested" if total is None else "held" if total >= HELD else "failed"
        conditions[condition] = ConditionResult(state, total, scores)
    grade = grade_of(conditions)
    return Verdict(grade, sentence(grade, name, conditions), conditions)


def gate_of(conditions: Mapping[str, ConditionResult]) -> float:
    """The lowest score of a gate; 1 if there is none."""
    tests = {test: one for result in conditions.values() for test, one in result.tests.items()}
    return min((one for test, one in tests.items() if AUDITS[test].gate), default=1.0)


def grade_of(conditions: Mapping[str, ConditionResult]) -> float | None:
    """The grade; None if fewer than two conditions were tested."""
    gate = gate_of(conditions)
    scores = sorted(min(one.score, gate) for one in conditions.values() if one.score is not None)
    if len(scores) < 2:
        return None
    lowest, middle = scores[0], scores[len(scores) // 2]
    if lowest >= HELD:
        return min(1.0, IS + (lowest - HELD) * (1 - IS) / (1 - HELD))
    if middle >= HELD:
        part = (middle - HELD) / (middle - lowest)
        return min(PARTLY + (IS - PARTLY) * part, math.nextafter(IS, 0))
    return min(PARTLY * middle / HELD, math.nextafter(PARTLY, 0))


def answer_of(grade: float) -> str:
    """In words: is not, is partly, or is."""
    return ANSWERS[(grade >= PARTLY) + (grade >= IS)]


def sentence(grade: float | None, name: str, conditions: Mapping[str, ConditionResult]) -> str:
    """The answer, in one sentence: what it rests on first, then what speaks against it, then what is open."""
    if grade is None:
        return f"Too little could be tested to say whether {name} is evidence of what the model used."
    answer = answer_of(grade)
    says = {
        state: [SAYS[condition][state] for condition, one in conditions.items() if one.state == state]
        for state in STATES
    }
    if gate_of(conditions) < HELD:
        says["failed"].insert(0, SHOWN_NOT_USED)
    order = [says["held"], says["failed"]]
    both = order[::-1] if answer == "is not" else order
    clauses = "; but ".join("; ".join(some) for some in both if some)
    reasons = "; ".join([clauses, *says["not tested"]])
    named = name[0].upper() + name[1:]
    return f"{named} {answer} evidence of what the model used ({grade:.2f} of 1): {reasons}."


SHOWN_NOT_USED = "the weights that are shown are not those that it uses"
SAYS: dict[str, dict[State, str]] = {
    "necessary": {
        "held": "its decisions need these weights",
        "failed": "its decisions hardly need these weights",
        "not tested": "whether decisions need the weights was not tested",
    },
    "hard to manipulate": {
        "held": "misleading weights seldom give the same predictions",
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
