"""Grade, conditions and sentence follow from one rule: over all combinations, and over all stored results."""

import json
from itertools import product
from pathlib import Path

import pytest

from regard.audits.planted.__main__ import read
from regard.audits.register import CONDITIONS, Finding
from regard.audits.verdict import IS, PARTLY, SAYS, SHOWN_NOT_USED, answer_of, judge

AUDITS_OF_DOCS = Path(__file__).parents[2] / "docs" / "audits"
RAMPS = {
    "erasure": (0.0, 1.0),
    "contradiction": (0.0, 1.0),
    "leave_one_out_correlation": (0.0, 1.0),
    "consistency": (0.0, 1.0),
}
SCORES = (None, 0.0, 0.3, 0.49, 0.5, 0.51, 0.8, 1.0)


def verdict(*scores, gate=None):
    """Of the three conditions with these scores, and of a gate."""
    given = dict(zip(RAMPS, (*scores, gate), strict=True))
    findings = {n: Finding(x, 0.0, None, 99, "") for n, x in given.items() if x is not None}
    return judge(findings, "it", RAMPS)


def check(found):
    """The sentence agrees with its clauses, with the states, and with the grade."""
    states = [found.conditions[name].state for name in CONDITIONS]
    held, failed = states.count("held"), states.count("failed")
    if held + failed < 2:
        assert found.grade is None and "Too little" in found.answer
        return
    start, _, reasons = found.answer.rstrip(".").partition("): ")
    clauses = reasons.replace("; but ", "; ").split("; ")
    unused = SHOWN_NOT_USED in clauses
    says = [SAYS[name][state] for name, state in zip(CONDITIONS, states, strict=True)]
    assert sorted(clauses) == sorted([*says, *([SHOWN_NOT_USED] if unused else [])])
    how = answer_of(found.grade)
    assert f" {how} evidence" in start
    assert (how == "is") == (found.grade >= IS) and (how == "is not") == (found.grade < PARTLY)
    assert (how == "is") == (failed == 0 and not unused)
    assert (how == "is not") == (held < failed or unused)
    bad = {SHOWN_NOT_USED, *(one["failed"] for one in SAYS.values())}
    assert (clauses[0] in bad) == (how == "is not")
    assert ("; but " in reasons) == (held > 0 and (failed > 0 or unused))


@pytest.mark.parametrize("gate", [None, 0.0, 0.49, 0.5, 1.0])
def test_no_combination_contradicts_itself(gate):
    for scores in product(SCORES, repeat=3):
        check(verdict(*scores, gate=gate))


def test_a_higher_score_never_lowers_the_grade():
    numbers = SCORES[1:]
    for at in range(3):
        for others in product(SCORES, repeat=2):
            grades = [verdict(*others[:at], x, *others[at:]).grade for x in numbers]
            if grades[0] is not None:
                assert grades == sorted(grades)


def test_a_condition_that_failed_is_not_made_up_for_by_others():
    assert verdict(1.0, 1.0, 0.49).grade < verdict(0.5, 0.5, 0.5).grade
    assert verdict(1.0, 0.0, 0.0).grade == 0  # one of three
    assert verdict(1.0, None, 0.0).grade == pytest.approx(0.5)  # one of two
    assert verdict(1.0, 1.0, 1.0).grade == verdict(1.0, None, 1.0).grade == 1
    assert verdict(0.8, 0.49, 0.3).grade == pytest.approx(0.49 * 2 / 3)  # the middle one counts


def test_weights_that_are_not_used_are_not_evidence_whatever_else_is_found():
    found = verdict(1.0, 1.0, 1.0, gate=0.2)
    assert found.grade == pytest.approx(0.2 * 2 / 3) and SHOWN_NOT_USED in found.answer
    assert found.conditions["necessary"].state == "failed"
    assert verdict(1.0, 1.0, 1.0, gate=0.7).grade == pytest.approx(2 / 3 + 0.2 * 2 / 3)
    assert verdict(0.6, 1.0, 1.0, gate=1.0).grade == verdict(0.6, 1.0, 1.0).grade  # it is in no mean


@pytest.mark.parametrize("stem", ["planted", "planted_fixing", "planted_full", "planted_full_fixing"])
def test_no_planted_result_contradicts_itself(stem):
    for result in read(AUDITS_OF_DOCS / f"{stem}.json"):
        found = judge(result.findings)
        check(found)
        assert found.grade == result.grade() is not None


def test_no_remedy_contradicts_itself():
    stored = json.loads((AUDITS_OF_DOCS / "remedies.json").read_text(encoding="utf-8"))
    for by_variant in stored.values():
        grades = {}
        for variant, by_seed in by_variant.items():
            for row in by_seed.values():
                tests = {n: Finding.from_dict({**one, "details": {}}) for n, one in row["tests"].items()}
                found = judge(tests)
                check(found)
                grades.setdefault(variant, []).append(found.grade)
        means = {variant: sum(some) / len(some) for variant, some in grades.items()}
        assert min(means["rationalizer"], means["no context"]) > PARTLY > means["softmax"]


def test_who_reads_only_the_words_it_names_does_not_rank_below_who_reads_all():
    grades = {}
    for result in read(AUDITS_OF_DOCS / "planted.json"):
        grades.setdefault(result.kind, []).append(result.grade())
    means = {kind: sum(some) / len(some) for kind, some in grades.items()}
    for kind in ("rationalizer, HardKuma", "rationalizer, entmax"):
        assert means[kind] > means["bounded"] > means["bilstm"]
