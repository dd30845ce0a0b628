"""regard audit, as it is typed: reports that stay, audits that go on, comparisons, and what is refused."""

import json
import subprocess
import sys
from itertools import islice

import pytest

import commands
from commands import run
from regard.audits import AUDITS, audit_folder
from regard.data import LABELLED


def complaint(*arguments):
    return commands.complaint("audit", *arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    for name in ("attentive_mlp", "attentive_bilstm"):
        done = run(
            "train", "classification", "--corpus", "sentiment", "--model", name, "--steps", 20,
            "--set", "data.texts=200", "--set", "data.held_out=20", "--set", "model.embedding=16",
            "--set", "model.width=16", "--device", "cpu", "--out", folder / name,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def data(trained):
    file = trained / "test.jsonl"
    texts = islice(LABELLED["sentiment"](seed=3, split="test"), 24)
    lines = [
        json.dumps({"text": text.text, "label": text.label, "highlights": text.highlights}) for text in texts
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_a_quick_audit_answers_writes_and_is_not_overwritten(trained, data, tmp_path):
    mlp = trained / "attentive_mlp"
    html, told, plain = tmp_path / "report.html", tmp_path / "report.json", tmp_path / "plain.html"
    done = run("audit", mlp, "--data", data, "--quick", "--html", html, "--json", told, "--plain", plain)
    assert done.exit_code == 0, done.output
    assert "evidence of what the model used" in " ".join(done.stdout.split())
    assert "left out" in done.stderr or not any(test.trains for test in AUDITS.values())
    report = json.loads(told.read_text(encoding="utf-8"))
    assert report["inputs"] == 24 and report["quick"]
    assert 0 <= report["grade"] <= 1
    assert report == json.loads((mlp / "audit" / "quick.json").read_text(encoding="utf-8"))
    page = html.read_text(encoding="utf-8")
    assert page == (mlp / "audit" / "quick.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    flips = report["tests"]["erasure"]["value"]
    assert f"in {round(100 * flips)} of 100 texts the decision changed" in plain.read_text(encoding="utf-8")
    assert "not overwritten" in complaint(mlp, "--data", data, "--quick", "--html", html)
    assert "not overwritten" in complaint(mlp, "--data", data, "--quick", "--plain", plain)
    assert "not overwritten" in complaint(mlp, "--data", data, "--quick")
    again = run("audit", mlp, "--data", data, "--quick", "--overwrite", "--json", told)
    assert again.exit_code == 0
    assert json.loads(told.read_text(encoding="utf-8")) == report  # the same seed, the same report


def test_too_few_texts_are_said_in_the_place_of_an_empty_table(trained, data, tmp_path):
    few = tmp_path / "few.jsonl"
    few.write_text("".join(data.read_text(encoding="utf-8").splitlines(True)[:4]), encoding="utf-8")
    done = run("audit", trained / "attentive_mlp", "--data", few, "--quick", "--overwrite")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert said.endswith("an audit needs 10 texts or more, and got 4.")


def test_what_was_stopped_goes_on(trained, data, monkeypatch):
    mlp, made = trained / "attentive_mlp", []
    tried = audit_folder.examine.__globals__["tried"]

    def stop(name, *arguments):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(name)
        return tried(name, *arguments)

    monkeypatch.setitem(audit_folder.examine.__globals__, "tried", stop)
    assert run("audit", mlp, "--data", data, "--seed", 5).exit_code == 130
    first = list(made)

    def count(name, *arguments):
        made.append(name)
        return tried(name, *arguments)

    monkeypatch.setitem(audit_folder.examine.__globals__, "tried", count)
    done = run("audit", mlp, "--data", data, "--seed", 5)
    assert done.exit_code == 0, done.output
    assert len(first) == 3 and len(made) == len(set(made))  # no test was made twice
    assert not (mlp / "audit" / ".full.json").exists()


def test_two_runs_are_compared(trained, data, tmp_path):
    runs = [trained / "attentive_mlp", trained / "attentive_bilstm"]
    html, told = tmp_path / "both.html", tmp_path / "both.json"
    done = run(
        "audit", *runs, "--data", data, "--quick", "--overwrite", "--seed", 1, "--html", html, "--json", told
    )
    assert done.exit_code == 0, done.output
    assert "attentive_mlp" in done.stdout and "attentive_bilstm" in done.stdout
    assert [report["name"] for report in json.loads(told.read_text(encoding="utf-8"))] == [
        f"the attention of {run.name}" for run in runs
    ]
    assert "2 audits compared" in html.read_text(encoding="utf-8")


def test_wrong_input_is_one_line(trained, data, tmp_path):
    mlp = trained / "attentive_mlp"
    assert "--data" in complaint(mlp, "--overwrite")
    assert "--self-test" in complaint()
    refused = complaint(mlp, "--source", data, "--overwrite")
    assert "--source is not for a classifier, which takes --data, --text, --label, " in refused
    assert "must end in .html" in complaint(mlp, "--data", data, "--html", tmp_path / "report.txt")
    assert "nowhere" in complaint(tmp_path / "nowhere", "--data", data)
    odd = tmp_path / "odd.tsv"
    odd.write_text("a film\tso so\n", encoding="utf-8")
    assert "not among those trained on" in complaint(mlp, "--data", odd, "--overwrite")
    assert "no such file" in complaint(mlp, "--data", tmp_path / "none.tsv", "--overwrite")


def test_no_run_is_audited_if_another_cannot_be(trained, data, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.cli.audit.audited", lambda *_: pytest.fail("an audit began"))
    first = trained / "attentive_bilstm"
    assert "no folder" in complaint(first, tmp_path / "nowhere", "--data", data, "--overwrite")


def test_a_report_that_cannot_be_written_is_named(trained, data, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "r.html")

    monkeypatch.setattr("regard.cli.audit.audited", lambda *_: None)
    monkeypatch.setattr("regard.cli.audit.write", full)
    said = complaint(trained / "attentive_mlp", "--data", data, "--overwrite", "--html", "r.html")
    assert said.startswith("regard audit: r.html: No space left on device.")


def test_an_audit_of_a_classifier_needs_no_aligner(trained, data):
    command = ["audit", str(trained / "attentive_mlp"), "--data", str(data), "--quick", "--overwrite"]
    code = (
        "import sys; from regard.cli import app; "
        f"app({command!r}, standalone_mode=False); "
        "print(*(name for name in sys.modules if name.startswith('regard.alignment')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "regard.alignment" not in done.stderr
