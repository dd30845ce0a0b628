"""regard claims: list, show, run; and the page that is generated from the same figures."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.claims import CLAIMS, runner
from regard.claims.claims_page import SECTIONS, sections
from regard.claims.remember import FINDINGS, findings
from regard.claims.runner import missing, run_claims
from regard.claims.stored_figures import read
from regard.cli import app
from regard.tasks.case import NotApplicable


def call(*arguments):
    return CliRunner().invoke(
        app, ["claims", *map(str, arguments)], prog_name="regard", env={"COLUMNS": "120"}
    )


def answer(*arguments):
    done = call(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_list_has_all():
    found = json.loads(answer("--json"))
    assert [one["claim"] for one in found] == list(CLAIMS)
    assert all(one["minutes"] > 0 for one in found)
    assert f"{len(CLAIMS)} claims" in answer()


@pytest.mark.parametrize("number", ["C5", "C27", "C49", "c65"])
def test_show(number):
    said = answer("show", number)
    claim = CLAIMS[number]
    assert claim.says.split()[0] in said and claim.places.split(",")[0] in said
    assert json.loads(answer("show", number, "--json"))["claim"] == claim.number


def test_show_draws_a_picture(tmp_path):
    file = tmp_path / "c12.png"
    answer("show", "C12", "--out", file)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_run_stores_and_compares(tmp_path):
    (found,) = json.loads(answer("run", "C17", "--to", tmp_path, "--json"))
    assert found["verdict"] == found["published"] == "holds" and found["agrees"] is True
    assert json.loads((tmp_path / "C17.json").read_text())["runs"][0]["seed"] == 0
    assert "the same" in answer("run", "C17", "--to", tmp_path)
    stored = tmp_path / "C17.json"
    stored.write_text(stored.read_text().replace('"α = 2": 0.0', '"α = 2": 0.5'))
    assert call("run", "C17", "--to", tmp_path).exit_code == 1  # what is stored says another thing


def test_a_run_is_continued_seed_by_seed(tmp_path):
    """Nothing is begun after the time is over; what is there is not run again."""
    begun = []

    def listen(claim, seed, left):
        begun.append((claim.number, seed))

    some = [CLAIMS["C36"], CLAIMS["C35"]]
    run_claims(some, 2, tmp_path, minutes=-1, listen=listen)
    assert begun == []
    run_claims(some[:1], 1, tmp_path, listen=listen)
    run_claims(some, 1, tmp_path, listen=listen)
    assert begun == [("C36", 5), ("C35", 5)]  # seed by seed, and each once
    assert len(read(CLAIMS["C35"], tmp_path).of()) == 1


def test_texts_that_changed_are_another_run(tmp_path):
    def words(seed, data):
        return {"words": float(len(Path(data).read_text().split()))}

    counted, file = replace(CLAIMS["C58"], measure=words, conditions=()), tmp_path / "mine.txt"
    for text in ("one", "one", "one two"):
        file.write_text(text)
        record = run_claims([counted], 1, tmp_path, {"data": str(file)})["C58"]
    assert sorted(run.figures["words"] for run in record.runs) == [1, 2]


def test_a_folder_that_cannot_be_written_is_one_line_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.claims.runner.run_seed", None)
    file = tmp_path / "file"
    file.touch()
    done = call("run", "C17", "--to", file)
    assert done.exit_code == 2 and f"{file} cannot be written into" in done.stderr.replace("\n", "")


def test_the_commit_is_of_this_code_and_not_of_a_repository_it_is_installed_in(tmp_path, monkeypatch):
    git = ["git", "-C", tmp_path, "-c", "user.name=A", "-c", "user.email=a@b"]
    for command in (["init"], ["commit", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    monkeypatch.setattr(runner, "__file__", str(tmp_path / "runner.py"))
    assert runner.commit() == ""


def test_options_are_taken_where_a_claim_has_them(tmp_path):
    (found,) = json.loads(
        answer("run", "C99", "--map", "softmax", "--seeds", "1", "--to", tmp_path, "--json")
    )
    assert found["options"] == {"map": "softmax"} and found["agrees"] is None
    file = tmp_path / "mine.tsv"
    file.write_text("".join(f"good {k}\tyes\nbad {k}\tno\n" for k in range(40)), encoding="utf-8")
    own = ("--map", "entmax15", "--model", "attentive_cnn", "--data", file)
    assert "C65: it runs" in answer("run", "C65", *own, "--quick")


def test_a_small_version_answers_as_json_and_nothing_to_run_is_said(monkeypatch):
    assert json.loads(answer("run", "C17", "C18", "--quick", "--json")).keys() == {"C17", "C18"}
    monkeypatch.setattr(runner, "missing", lambda longest: [])
    assert "Nothing to run" in answer("run", "--missing")
    assert json.loads(answer("run", "--missing", "--json")) == []


def test_more_seeds_than_a_claim_has_are_refused_aloud(tmp_path, monkeypatch):
    run = replace(CLAIMS["C36"], measure=lambda seed: {"a": 1.0}, conditions=())
    monkeypatch.setitem(CLAIMS, "C36", run)
    done = call("run", "C36", "--seeds", "9", "--to", tmp_path)
    assert "C36 has 5 seeds, 5 to 9" in done.stderr


def test_a_model_that_says_the_same_of_every_text_is_one_line(monkeypatch, tmp_path):
    def unable(seed):
        raise NotApplicable("every text gets the same class")

    monkeypatch.setitem(CLAIMS, "C1", replace(CLAIMS["C1"], measure=unable))
    done = call("run", "C1", "--quick")
    assert done.exit_code == 2 and "C1, seed 0, cannot be asked of this model: every text" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "C100"], 'no claim "C100"'),
        (["show", "C5", "--out", "c5.html"], "written as .png, .svg or .pdf"),
        (["run", "C17", "--within", "-1"], "greater than or equal to 0"),
        (["run"], "either numbers of claims, or --exact, or --missing is needed"),
        (["run", "C5", "--exact"], "either numbers of claims"),
        (["run", "C5", "--map", "softmax"], "C5 takes no --map. Those that do: C22"),
        (["run", "C69", "--map", "sofmax"], "did you mean softmax?"),
        (["run", "C99", "--map", "sinkhorn"], "acts on the whole matrix of scores"),
        (["run", "C69", "--data", "nowhere.tsv"], "there is no such file"),
        (["run", "C5", "--longest", "1"], "--longest goes with --missing"),
    ],
)
def test_complaints_are_one_line(arguments, says):
    done = call(*arguments)
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_model_must_be_one_that_looks_at_words(tmp_path):
    done = call("run", "C69", "--model", "hierarchical", "--to", tmp_path)
    assert done.exit_code == 2 and "attentive_cnn" in done.stderr


def test_what_is_missing_comes_the_quickest_first():
    found = missing()
    assert [claim.minutes for claim in found] == sorted(claim.minutes for claim in found)
    assert all(claim.minutes <= 1 for claim in missing(1))


def test_the_page_has_every_claim_and_every_group():
    page = sections()
    assert {claim.group for claim in CLAIMS.values()} == set(SECTIONS)
    assert all(f"| {number} |" in page for number in CLAIMS)


def test_ten_findings_each_with_figures_that_are_measured():
    assert len(FINDINGS) == 10 and findings().count("regard claims run") == 10
    for name, finding in FINDINGS.items():
        for run in read(CLAIMS[name]).of():
            assert finding["shows"].format_map(run.figures) != finding["shows"]


@pytest.mark.parametrize("name", ["claims", "what_to_remember"])
def test_pages_are_fresh(name):
    """What stands in the pages is what the package stores."""
    text = (Path(__file__).parents[2] / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for part in (sections(), findings()):
        if part.splitlines()[0] in text:
            assert part in text, f"docs/{name}.md is stale: run make tables"
            return
    raise AssertionError(f"docs/{name}.md has no generated part as it should be: run make tables")
