"""regard view of classifiers, as one types it, and every wrong way to."""

import json
import re

import pytest
import torch

from commands import run
from inspection.tiny_runs import REVIEW as TEXT
from inspection.tiny_runs import folder_of, system_of
from regard.explanations import METHODS
from regard.inspection import inspect, word_scores
from regard.views.picture import BELOW

STARTS = {"html": b"<!DOCTYPE html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def seen(name, file, *more):
    done = run("view", folder_of(name), "--text", TEXT, "--out", file, *more)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def data(file):
    return json.loads(re.search('<script type="application/json"[^>]*>(.*?)</script>', file.read_text())[1])


@pytest.mark.parametrize("ending", STARTS)
def test_the_words_are_drawn_and_the_class_is_printed(tmp_path, ending):
    file = tmp_path / f"words.{ending}"
    answer, path = seen("bilstm", file)
    found = inspect(system_of("bilstm"), TEXT)
    probability = found.probabilities[found.said]
    assert answer == f"predicted: {found.said} (probability {probability:.3f})" and path == str(file)
    assert file.read_bytes().startswith(STARTS[ending])


@pytest.mark.parametrize("method", METHODS)
def test_the_words_by_every_method(tmp_path, method):
    file = tmp_path / "words.html"
    seen("bilstm", file, "--method", method)
    drawn, wanted = data(file), word_scores(inspect(system_of("bilstm"), TEXT), method)
    assert drawn["kind"] == "words" and drawn["source"] == TEXT.split()
    torch.testing.assert_close(torch.tensor(drawn["matrices"][0]["weights"][0]), wanted, atol=1e-4, rtol=1e-3)
    assert drawn["matrices"][0].get("signed", False) == bool((wanted < 0).any())


def test_scores_below_0_have_a_colour_of_their_own(tmp_path):
    assert (word_scores(inspect(system_of("bilstm"), TEXT), "leave_one_out") < 0).any()
    for method, signed in (("leave_one_out", True), ("attention", False)):
        seen("bilstm", tmp_path / "words.svg", "--method", method)
        assert (BELOW in (tmp_path / "words.svg").read_text()) == signed


@pytest.mark.parametrize("kind", ["heads", "layers", "heat_map", "lines"])
@pytest.mark.parametrize("name", ["layers", "first"])
def test_self_attention_is_drawn_by_the_views_there_are(tmp_path, kind, name):
    file = tmp_path / "map.html"
    seen(name, file, "--kind", kind)
    drawn = data(file)
    assert drawn["kind"] == kind and drawn["source"] == drawn["target"]
    assert drawn["source"][-len(TEXT.split()) :] == TEXT.split()
    assert len(drawn["matrices"]) == {"heads": 4, "layers": 2}.get(kind, 1)


def test_one_query_and_one_head(tmp_path):
    file = tmp_path / "words.html"
    seen("queries", file, "--head", 2)
    drawn = torch.tensor(data(file)["matrices"][0]["weights"][0])
    torch.testing.assert_close(
        drawn, inspect(system_of("queries"), TEXT).weights[0][1, 0], atol=1e-4, rtol=1e-4
    )
    assert "head 2 of 3" in data(file)["caption"]
    seen("layers", file, "--kind", "heat_map", "--layer", 1, "--head", 2)
    assert "layer 1 of 2, head 2 of 2" in data(file)["caption"]


def test_pairs(tmp_path):
    answer, _ = seen("pairs", tmp_path / "words.html", "--second", "bert")
    assert answer.split()[1] in ("good", "bad", "<b>fair</b>")


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        (
            "bilstm",
            ["--kind", "steps"],
            "kind steps is for answers of several words; of bilstm there is heat_map",
        ),
        ("bilstm", ["--kind", "heads"], "has no self-attention over its input"),
        ("layers", ["--kind", "heads", "--head", 1], "kind heads shows all layers"),
        ("layers", ["--kind", "heat_map", "--layer", 3], "--layer must be from 1 to 2; got 3"),
        ("bilstm", ["--layer", 2], "--layer must be from 1 to 1; got 2"),
        ("queries", ["--head", 4], "--head must be from 1 to 3; got 4"),
        ("bilstm", ["--method", "flo"], "did you mean flow"),
        ("bilstm", ["--method", "flow", "--head", 1], "method colours the words"),
        ("layers", ["--method", "flow", "--kind", "heads"], "method colours the words"),
        ("bilstm", ["--second", "x"], "takes one text; a second came"),
        ("pairs", [], "takes two texts: the second must be given"),
        ("bilstm", ["--text", "  "], "there are no words"),
        ("bilstm", ["--text", "one", "--method", "leave_one_out"], "nothing is left without it"),
    ],
)
def test_wrong_views_are_one_line(tmp_path, name, more, says):
    given = {"--text": TEXT, "--out": tmp_path / "map.html"}
    given |= dict(zip(more[::2], more[1::2], strict=True))
    done = run("view", folder_of(name), *(part for pair in given.items() for part in pair))
    assert done.exit_code == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done.output
    assert says in done.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--method", "flow"], 'there is no "method" to choose here: there is layer, head'),
        (["--method", "flow", "--kind", "words"], 'there is no "method" to choose here'),
        (["--second", "du"], "heads takes one text; a second came"),
    ],
)
def test_what_a_translator_cannot_do_is_one_line(tmp_path, more, says):
    done = run("view", folder_of("heads"), "--text", "du", "--out", tmp_path / "a.html", *more)
    assert done.exit_code == 2 and says in done.stderr and done.stderr.count("\n") == 1
