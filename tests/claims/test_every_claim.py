"""Every claim is entered once and measures what its thresholds name; exact ones come out as published."""

import re
import subprocess
from pathlib import Path

import pytest

from regard.claims import CLAIMS
from regard.claims.claim import LECTURES
from regard.claims.runner import run_seed, try_out
from regard.claims.stored_figures import PUBLISHED, read
from regard.claims.verdict_of_claim import WORDS, judge, measured

EXACT = [number for number, claim in CLAIMS.items() if claim.exact]
TRAINED = [number for number, claim in CLAIMS.items() if not claim.exact]


def test_there_are_99_in_their_order():
    assert list(CLAIMS) == [*(f"C{k}" for k in range(1, 100)), "S1", "S2", "S3", "S4", "S5", "S6"]
    assert len({claim.says for claim in CLAIMS.values()}) == len(CLAIMS)


@pytest.mark.parametrize("number", CLAIMS)
def test_it_says_where_and_how(number):
    claim = CLAIMS[number]
    assert claim.says.endswith((".", "?")) and claim.source and claim.group
    assert all(part.strip()[:3] in LECTURES for part in claim.source.split(";"))
    assert claim.experiment and claim.fixed and any(not condition.control for condition in claim.conditions)
    assert claim.exact or (claim.minutes > 0 and len(claim.seeds) >= 5)


@pytest.mark.parametrize("number", EXACT)
def test_exact_claims_come_out_as_published(number):
    claim, published = CLAIMS[number], read(CLAIMS[number])
    run = run_seed(claim, claim.seeds[0])
    assert judge(claim, [run.figures]).word == published.verdict.word
    assert set(run.figures) == set(published.of()[0].figures)


@pytest.mark.filterwarnings("error:the vocabulary has")  # a small vocabulary is the claim's own affair
@pytest.mark.parametrize("number", TRAINED)
def test_trained_claims_run_in_small(number):
    claim = CLAIMS[number]
    run = try_out(claim)
    needed = {name for condition in claim.conditions for name in condition.names()}
    assert needed <= set(run.figures)
    for published in read(claim).of():
        assert set(published.figures) == set(run.figures), "the experiment measures something else by now"


@pytest.mark.parametrize("file", sorted(PUBLISHED.glob("*.json")), ids=lambda file: file.stem)
def test_published_figures_belong_to_a_claim(file):
    record = read(CLAIMS[file.stem])
    assert record.settled
    assert record.verdict.word in WORDS
    assert len({run.seed for run in record.of()}) == len(record.of())
    assert all(run.seed in record.claim.seeds and not run.options for run in record.runs)


def test_thresholds_are_older_than_the_seeds_they_judge():
    """By the commits that claims and runs name, where this is a checkout that has them."""
    root = Path(__file__).parents[2]
    pairs = {
        (fixed, run.commit)
        for claim in CLAIMS.values()
        for run in read(claim).of()
        for fixed in re.findall(r"\b[0-9a-f]{7}\b", claim.fixed)
        if run.commit
    }
    assert pairs

    def git(*arguments):
        return subprocess.run(["git", "-C", root, *arguments], capture_output=True).returncode

    known = [pair for pair in pairs if not any(git("cat-file", "-e", commit) for commit in pair)]
    if not known:
        pytest.skip("no checkout with the history of the claims")
    assert [pair for pair in known if git("merge-base", "--is-ancestor", *pair)] == []


@pytest.mark.parametrize("number", CLAIMS)
def test_notes_have_no_figure_that_is_not_stored(number):
    """Decimals in notes are those of a stored figure, or of a setting that the experiment names."""
    claim, stored = CLAIMS[number], measured([run.figures for run in read(CLAIMS[number]).of()])
    values = [value for each in stored.values() for value in (*each, each.mean())]
    known = {f"{value:.{digits}f}".lstrip("0") for value in values for digits in (1, 2, 3)}
    notes = " ".join((claim.remark, claim.changed, claim.only_if)).replace("standard deviation 0.3", "")
    settings = f"{claim.experiment} {claim.control}"
    for figure in re.findall(r"(?<!\w)\d*\.\d+", notes):
        assert figure.lstrip("0") in known or figure in settings
