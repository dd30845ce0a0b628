"""What figures say: the rule of four of five, controls, parts of a sentence, figures in files."""

import json
from dataclasses import replace

import pytest

from regard.claims.claim import Claim, at_least, at_most, between, must_fail
from regard.claims.claim_summary import interval, number
from regard.claims.stored_figures import Record, Run, agreement, agrees, read, write
from regard.claims.verdict_of_claim import Verdict, judge, measured


def claim(*conditions, **more):
    return Claim("C1", "It is so.", "000:1", "Toys", measure=lambda seed: {}, conditions=conditions, **more)


def runs(**figures):
    return [dict(zip(figures, values, strict=True)) for values in zip(*figures.values(), strict=True)]


@pytest.mark.parametrize(
    ("values", "met"),
    [
        ([1, 1, 1, 1, 1], True),
        ([0.9, 1, 1, 1, 1], False),  # four of five, and the mean is below
        ([0, 2, 2, 2, 2], True),
        ([0, 0, 5, 5, 5], False),
    ],
)
def test_held_in_the_mean_and_in_four_of_five(values, met):
    found = at_least(1, "x").met(measured(runs(x=values)))
    assert (found is True) == met
    both = (sum(values) / 5 >= 1, sum(v >= 1 for v in values) >= 4)
    assert (found is None) == (both[0] != both[1])


def test_differences_and_ratios():
    figures = measured(runs(a=[3.0, 4.0], b=[1.0, 2.0]))
    assert at_least(2, "a − b").values(figures).tolist() == [2, 2]
    assert at_most(3, "a / b").values(figures).tolist() == [3, 2]
    assert at_most(3, "a / b").names() == ["a", "b"] and at_most(3, "a").names() == ["a"]
    assert [str(c) for c in between(0, 1, "a")] == ["a ≥ 0", "a ≤ 1"]


FIVE = {"a": [1] * 5, "b": [0] * 5, "c": [0, 0, 2, 2, 2]}


@pytest.mark.parametrize(
    ("conditions", "more", "word"),
    [
        ([at_least(1, "a")], {}, "holds"),
        ([at_least(1, "a")], {"only_if": "it rains"}, "holds if it rains"),
        ([at_least(1, "b")], {}, "fails"),
        ([at_least(1, "c")], {}, "not settled: the mean and four of five seeds do not agree"),
        (
            [at_least(1, "a", "one"), at_least(1, "b", "two")],
            {},
            "holds in part: one; not: two",
        ),
        (
            [at_least(1, "a"), must_fail(at_least(1, "b"))],
            {},
            "not settled: the control did not come out, b ≥ 1",
        ),
        ([at_least(1, "c", rule="mean")], {}, "holds"),
        ([at_least(2, "c", rule="median")], {}, "holds"),
    ],
)
def test_the_verdict(conditions, more, word):
    assert str(judge(claim(*conditions, **more), runs(**FIVE))) == word


def test_fewer_seeds_settle_nothing_but_one_run_settles_what_is_exact():
    two = runs(a=[1, 1])
    assert str(judge(claim(at_least(1, "a")), two)) == "not settled: 2 of 5 seeds; so far: holds"
    assert judge(claim(at_least(1, "a"), exact=True), two[:1]).word == "holds"
    assert judge(claim(), []).word == "not settled"


def test_figures_are_stored_and_found_again(tmp_path):
    one, toy = Run(0, {"a": 1.0}, 0.1), claim(at_least(1, "a"))
    record = Record(toy)
    assert record.verdict.word == "not settled" and not record.settled
    for seed in (1, 0, 1):
        record = record.including(Run(seed, {"a": 1.0}, 0.1))
    record = record.including(Run(0, {"a": 0.0}, 0.1, options={"map": "softmax"}))
    write(record, tmp_path)
    again = read(toy, tmp_path)
    assert [run.seed for run in again.of()] == [0, 1]
    assert [run.figures for run in again.of({"map": "softmax"})] == [{"a": 0.0}]
    assert agreement([one], again.of()) == 0 and agreement([one], []) is None
    (tmp_path / "C1.json").write_text(json.dumps({"runs": [{"seed": 0, "figures": {"a": 1}, "seconds": 1}]}))
    older = replace(toy, conditions=())  # what it measured besides is not measured any more
    assert list(measured([{"b": 1.0, "a": 1.0}, read(older, tmp_path).of()[0].figures])) == ["a"]


@pytest.mark.parametrize(
    "content", [[], {"runs": [{"what": 1}]}, {"runs": [{"seed": 0, "figures": {"b": 1}, "seconds": 1}]}]
)
def test_files_of_anything_else_are_refused(tmp_path, content):
    (tmp_path / "C1.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"C1\.json holds no figures of claims"):
        read(claim(at_least(1, "a")), tmp_path)


def test_places_are_one_line_or_several():
    toy = replace(claim(), source="000:90; 001:107-160; 001:218; 003:152-153")
    assert toy.places == "Cagliero, line 90; Iyyer, lines 107-160, 218; Asperti, lines 152-153"


def test_verdicts_agree_differ_or_cannot_be_compared():
    one, two = (at_least(1, name, name) for name in "ab")
    part, other = (judge(claim(one, two), runs(a=[a] * 5, b=[1 - a] * 5)) for a in (1, 0))
    assert agrees(Verdict("holds"), Verdict("holds")) is True
    assert agrees(Verdict("holds"), Verdict("fails")) is False
    assert part.word == other.word and agrees(part, other) is False  # not the same part of it holds
    for few in (judge(claim(one), runs(a=[1])), judge(claim(one), [])):
        assert agrees(few, Verdict("holds")) is agrees(Verdict("not settled"), few) is None


def test_numbers_are_short():
    assert [number(v) for v in (1.0, 0.12345, 1234.5, 3e-7, float("nan"))] == [
        "1",
        "0.123",
        "1,234",
        "3e-07",
        "–",
    ]
    assert interval([0.5] * 5) == "0.500" and interval([1.0, 2.0]) == "1.500"
    assert interval([0.1, 0.2, 0.3, 0.4, 0.5]).startswith("0.300 [0.1")
