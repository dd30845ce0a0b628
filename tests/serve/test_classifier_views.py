"""regard view of classifiers, as one types it, and every wrong way to."""

import json
import re

import pytest
import torch
from typer.testing import CliRunner

from regard.cli import app
from regard.explanations import METHODS
from regard.serve import judge, scored
from regard.views.picture import BELOW
from serve.tiny_classifiers import TEXT

STARTS = {"html": b"<!DOCTYPE html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def run(*arguments):
    arguments = [str(a) for a in arguments]
    return CliRunner().invoke(app, arguments, prog_name="regard", env={"COLUMNS": "80"})


def seen(folder, file, *more):
    done = run("view", folder, "--text", TEXT, "--out", file, *more)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def data(file):
    return json.loads(re.search('<script type="application/json"[^>]*>(.*?)</script>', file.read_text())[1])


@pytest.mark.parametrize("ending", STARTS)
def test_the_words_are_drawn_and_the_class_is_printed(judge_folders, judges, tmp_path, ending):
    file = tmp_path / f"words.{ending}"
    answer, path = seen(judge_folders["bilstm"], file)
    found = judge(judges["bilstm"], TEXT)
    assert answer == f"{found.label}  {found.probabilities[found.label]:.3f}" and path == str(file)
    assert file.read_bytes().startswith(STARTS[ending])


@pytest.mark.parametrize("method", METHODS)
def test_the_words_by_every_method(judge_folders, judges, tmp_path, method):
    file = tmp_path / "words.html"
    seen(judge_folders["bilstm"], file, "--method", method)
    drawn, wanted = data(file), scored(judge(judges["bilstm"], TEXT), method)
    assert drawn["kind"] == "words" and drawn["source"] == TEXT.split()
    torch.testing.assert_close(torch.tensor(drawn["maps"][0]["weights"][0]), wanted, atol=1e-4, rtol=1e-3)
    assert drawn["maps"][0].get("signed", False) == bool((wanted < 0).any())


def test_scores_below_0_have_a_colour_of_their_own(judge_folders, judges, tmp_path):
    assert (scored(judge(judges["bilstm"], TEXT), "leave_one_out") < 0).any()
    for method, signed in (("leave_one_out", True), ("attention", False)):
        seen(judge_folders["bilstm"], tmp_path / "words.svg", "--method", method)
        assert (BELOW in (tmp_path / "words.svg").read_text()) == signed


@pytest.mark.parametrize("kind", ["heads", "layers", "heat_map", "lines"])
@pytest.mark.parametrize("name", ["layers", "first"])
def test_self_attention_is_drawn_by_the_views_there_are(judge_folders, tmp_path, kind, name):
    file = tmp_path / "map.html"
    seen(judge_folders[name], file, "--kind", kind)
    drawn = data(file)
    assert drawn["kind"] == kind and drawn["source"] == drawn["target"]
    assert drawn["source"][-len(TEXT.split()) :] == TEXT.split()
    assert len(drawn["maps"]) == {"heads": 4, "layers": 2}.get(kind, 1)


def test_one_look_and_one_head(judge_folders, judges, tmp_path):
    file = tmp_path / "words.html"
    seen(judge_folders["looks"], file, "--head", 2)
    drawn = torch.tensor(data(file)["maps"][0]["weights"][0])
    torch.testing.assert_close(drawn, judge(judges["looks"], TEXT).weights[1], atol=1e-4, rtol=1e-4)
    assert "look 2 of 3" in data(file)["caption"]
    seen(judge_folders["layers"], file, "--kind", "heat_map", "--layer", 1, "--head", 2)
    assert "layer 1 of 2, head 2 of 2" in data(file)["caption"]


def test_pairs(judge_folders, tmp_path):
    answer, _ = seen(judge_folders["pairs"], tmp_path / "words.html", "--second", "bert")
    assert answer.split()[0] in ("good", "bad", "<b>fair</b>")


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("bilstm", ["--kind", "steps"], "--kind steps is for translators; bilstm is a classifier: words"),
        ("bilstm", ["--kind", "heads"], "has no layers of self-attention"),
        ("layers", ["--kind", "heads", "--head", 1], "--kind heads shows all layers"),
        ("layers", ["--kind", "heat_map", "--layer", 3], "--layer must be from 1 to 2; got 3"),
        ("bilstm", ["--layer", 1], "--layer goes with --kind heat_map"),
        ("looks", ["--head", 4], "--head must be from 1 to 3; got 4"),
        ("bilstm", ["--method", "flo"], "did you mean flow"),
        ("bilstm", ["--method", "flow", "--head", 1], "--method colours the words"),
        ("layers", ["--method", "flow", "--kind", "heads"], "--method colours the words"),
        ("bilstm", ["--second", "x"], "takes one text; a second came"),
        ("pairs", [], "takes two texts: the second must be given"),
        ("bilstm", ["--text", "  "], "there are no words"),
        ("bilstm", ["--text", "one", "--method", "leave_one_out"], "nothing is left without it"),
    ],
)
def test_wrong_views_are_one_line(judge_folders, tmp_path, name, more, says):
    given = {"--text": TEXT, "--out": tmp_path / "map.html"}
    given |= dict(zip(more[::2], more[1::2], strict=True))
    done = run("view", judge_folders[name], *(part for pair in given.items() for part in pair))
    assert done.exit_code == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done.output
    assert says in done.stderr and list(tmp_path.iterdir()) == []


def test_a_translator_has_no_methods(folders, tmp_path):
    done = run("view", folders[0], "--text", "du", "--method", "flow", "--out", tmp_path / "a.html")
    assert done.exit_code == 2 and "heads is a translator" in done.stderr
