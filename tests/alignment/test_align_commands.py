"""regard train aligner, align, and evaluate with gold alignments, as typed."""

import json
from itertools import islice

import pytest

import regard
import regard.alignment.forced_alignment
import regard.tasks.alignment
from commands import complaint, run
from regard.alignment import Links, score
from regard.alignment.forced_alignment import forced
from regard.alignment.formats import read, write
from regard.data import CORPORA
from regard.runs import fit, resolve
from runs.tiny import SETTINGS


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A bitext with gold links, an aligner, and a little translator."""
    folder = tmp_path_factory.mktemp("alignment")
    pairs = list(islice(CORPORA["copy"](seed=1), 150))
    (folder / "s").write_text("".join(p.source + "\n" for p in pairs))
    (folder / "t").write_text("".join(p.target + "\n" for p in pairs))
    (folder / "gold").write_text("".join(line + "\n" for line in write(Links.of(p.alignment) for p in pairs)))
    done = run(
        "train", "aligner", "--source", folder / "s", "--target", folder / "t", "--out", folder / "aligner"
    )
    assert done.exit_code == 0, done.output
    assert "regard align" in done.stdout
    assert "round 10 of 10" in done.stderr and "150 pairs" in done.stderr
    fit(resolve(SETTINGS), folder / "run")
    return folder


def text(folder):
    return ["--source", folder / "s", "--target", folder / "t"]


def test_an_aligner_writes_links_that_evaluate_scores(there):
    done = run("align", there / "aligner", *text(there))
    assert done.exit_code == 0, done.output
    assert "threshold 0.5, grow-diag-final-and" in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 150 and "0-0" in lines[0]
    scored = run("evaluate", there / "aligner", *text(there), "--gold-alignments", there / "gold", "--json")
    assert scored.exit_code == 0, scored.output
    found = json.loads(scored.stdout)
    assert found["aer"] < 0.02 and found["aer_aligned_words"] < 0.02
    assert {"precision", "recall"} <= set(found)
    (there / "out").write_text(done.stdout)
    sizes = [(len(line.split()),) * 2 for line in (there / "s").read_text().splitlines()]
    assert score(read(there / "out", sizes), read(there / "gold", sizes)).aer == pytest.approx(found["aer"])
    assert (
        "alignment error rate"
        in run("evaluate", there / "aligner", *text(there), "--gold-alignments", there / "gold").stdout
    )


def test_naacl_and_choices(there):
    done = run("align", there / "aligner", *text(there), "--naacl", "--symmetrise", "intersection")
    assert done.stdout.splitlines()[0] == "0001 1 1 S"
    (there / "first").write_text("".join((there / "gold").read_text().splitlines(True)[:20]))
    done = run(
        "align", there / "aligner", *text(there), "--gold-alignments", there / "first", "--method", "argmax"
    )
    assert "argmax" in done.stderr and "chosen on 20 sentences" in done.stderr


def test_a_translator_aligns_by_its_attention(there):
    done = run("align", there / "run", *text(there), "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 150
    assert "with an aligner" in done.stderr
    both = run("align", there / "run", "--reverse", there / "run", *text(there), "--device", "cpu")
    assert both.exit_code == 0, both.output
    assert "reverse: " in both.stderr and "agree" in both.stderr
    named = ["--layer", 1, "--head", 2, "--method", "matching"]
    said = run("align", there / "run", *text(there), *named).stderr
    assert "layer 1, head 2, " in said and "links: matching" in said
    assert "layer 1, " in run("align", there / "run", *text(there), "--layer", 1).stderr
    scored = run(
        "evaluate", there / "run", *text(there), "--beam", 1, "--gold-alignments", there / "gold", "--json"
    )
    found = json.loads(scored.stdout)
    assert {"bleu", "aer", "precision", "recall"} <= set(found)
    pairs = [(p.source, p.target, Links.of(p.alignment)) for p in islice(CORPORA["copy"](seed=1), 150)]
    system = regard.load(there / "run")
    view = system.align([pair[:2] for pair in pairs]).view
    hits, mass, words = 0, 0.0, 0
    for k, heads in forced(system, [pair[:2] for pair in pairs], view.head):
        weights = view.correct(heads)
        for i, j in pairs[k][2].sure:  # in a copy every word has one link
            hits, mass, words = hits + (weights[j].argmax() == i), mass + weights[j, i], words + 1
    assert (found["match"], found["weight_on_links"]) == pytest.approx((hits / words, mass / words), abs=1e-6)


def test_what_is_loaded_aligns(there):
    pairs = [(p.source, p.target) for p in islice(CORPORA["copy"](seed=1), 150)]
    by_command = run("align", there / "aligner", *text(there)).stdout.splitlines()
    assert list(write(regard.load(there / "aligner").align(pairs).links)) == by_command
    assert len(regard.load(there / "run").align(pairs[:20]).links) == 20


def test_what_is_wrong_is_one_line(there, tmp_path):
    aligner, gold = there / "aligner", there / "gold"
    assert "must be one of argmax" in complaint("align", aligner, *text(there), "--method", "best")
    assert "must be one of intersection" in complaint("align", aligner, *text(there), "--symmetrise", "x")
    assert "threshold must be" in complaint("align", aligner, *text(there), "--threshold", 1.5)
    assert "--base" in complaint("align", aligner, *text(there), "--base", 2)
    assert "--head needs --layer" in complaint("align", there / "run", *text(there), "--head", 1)
    assert "layer 9 is not there: layer" in complaint("align", there / "run", *text(there), "--layer", 9)
    few = complaint("align", there / "run", *text(there), "--layer", 1, "--head", 9)
    assert "layer 1, head 9 is not there: this layer has heads 1 to 2" in few
    assert "there is no folder" in complaint("align", tmp_path / "none", *text(there))
    assert "aligns both ways" in complaint("align", aligner, "--reverse", there / "run", *text(there))
    assert "a run of translation is needed here" in complaint(
        "align", there / "run", "--reverse", aligner, *text(there)
    )
    assert "--gold-alignments are needed" in complaint("evaluate", aligner, *text(there))
    assert "already holds a run" in complaint("train", "aligner", *text(there), "--out", aligner)
    assert "no setting" in complaint(
        "train", "aligner", *text(there), "--out", tmp_path / "a", "--set", "x=1"
    )
    (tmp_path / "short").write_text("0-0\n")
    short = complaint("evaluate", aligner, *text(there), "--gold-alignments", tmp_path / "short")
    assert "ends with sentence 1, and there are 150" in short
    source = ["--source", there / "s", "--target", tmp_path / "short"]
    assert "must match line by line" in complaint("align", aligner, *source)
    (tmp_path / "bad").write_text(gold.read_text().replace("0-0", "0-99", 1))
    bad = complaint("align", aligner, *text(there), "--gold-alignments", tmp_path / "bad")
    assert "line 1: 0-99 is out of range" in bad
    gold_of = ["--gold-alignments", tmp_path / "bad", "--out-of-range", "skip"]
    told = run("align", aligner, *text(there), *gold_of)
    assert told.exit_code == 0 and "1 gold link skipped; the first: " in told.stderr
    scored = run("evaluate", aligner, *text(there), *gold_of)
    assert scored.exit_code == 0 and "line 1: 0-99 is out of range" in " ".join(scored.stdout.split())
    assert (
        json.loads(run("evaluate", aligner, *text(there), *gold_of, "--json").stdout)["gold_links_skipped"]
        == 1
    )
