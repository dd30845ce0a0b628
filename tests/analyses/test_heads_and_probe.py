"""regard heads and regard probe: what is typed, and every wrong way to type it."""

import json

import pytest

from commands import complaint, run

ROW = "{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t_"


@pytest.fixture
def folder(tiny_run):
    return tiny_run("translation").folder


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Sentences of three words of the toy: the tag of each is its first letter."""
    words = ["ba", "de", "fi", "ga", "ku", "le"]
    blocks = []
    for k in range(60):
        some = [words[(k + j * j) % 6] for j in range(3)]
        lines = [
            ROW.format(
                j + 1, word, "X" if word < "f" else "Y", 2 if j != 1 else 0, "obj" if j != 1 else "root"
            )
            for j, word in enumerate(some)
        ]
        blocks.append("\n".join(lines) + "\n")
    path = tmp_path_factory.mktemp("trees") / "some.conllu"
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def test_heads_of_sentences(folder, tmp_path):
    (tmp_path / "s").write_text("ba de fi\n\nga ga ku le\n")
    done = run("heads", folder, "--source", tmp_path / "s", "--json")
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["layer"], one["head"]) for one in found] == [(1, 1), (1, 2)]
    assert {"positional", "rare words"} <= set(found[0]["scores"])
    assert set(found[0]["scores"]["positional"][0]) == {"what", "score", "baseline", "count", "plays"}
    shown = run("heads", folder, "--source", tmp_path / "s")
    assert "1.2" in shown.stdout and "of 2 heads have a role" in shown.stdout


def test_heads_and_trees(folder, trees):
    shown = run("heads", folder, "--conllu", trees)
    assert shown.exit_code == 0, shown.output
    assert "syntactic" in shown.stdout and "obj" in shown.stdout


def test_heads_are_pruned(folder):
    done = run("heads", folder, "--prune", 0, "--prune", 5, "--steps", 120, "--json")
    assert done.exit_code == 0, done.output
    free, dear = (json.loads(line) for line in done.stdout.splitlines())
    assert free["kept"] == free["heads"] == 2 and dear["kept"] == 0
    assert set(dear["after"]) == {"loss", "accuracy"} and free["before"] == dear["before"]
    shown = run("heads", folder, "--prune", 5, "--steps", 120)
    assert "before" in shown.stdout and "··" in shown.stdout


@pytest.mark.parametrize("code", ["online", pytest.param("variational", marks=pytest.mark.slow)])
def test_probe_compares_layers(folder, trees, code):
    asked = ["probe", folder, "--conllu", trees, "--task", "upos", "--code", code, "--hidden", 0]
    done = run(*asked, "--json")
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["layer"] for one in found] == [0, 1]
    assert found[0]["real"]["labels"] == 180 and found[0]["uniform"] == 180
    assert found[0]["real"]["compression"] > 1.2  # each of the words has its vector


def test_probe_prints_a_table(folder, trees):
    shown = run("probe", folder, "--conllu", trees, "--hidden", 0)
    assert shown.exit_code == 0, shown.output
    assert "selectivity" in shown.stdout and "upos of 180 words, 2 labels" in shown.stdout
    shown = run("probe", folder, "--conllu", trees, "--hidden", 0, "--code", "information")
    assert shown.exit_code == 0, shown.output
    assert "gain" in shown.stdout and "bits per word" in shown.stdout


def test_what_is_wrong_is_one_line(folder, trees, tmp_path):
    (tmp_path / "empty").write_text("")
    (tmp_path / "blank").write_text("\n")
    assert "one of --source, --data and --conllu is needed" in complaint("heads", folder)
    assert "got --source and --conllu" in complaint("heads", folder, "--source", trees, "--conllu", trees)
    assert "goes without --source" in complaint("heads", folder, "--source", trees, "--prune", 1)
    assert "there is no folder" in complaint("heads", tmp_path / "no", "--source", trees)
    assert "the file is empty" in complaint("heads", folder, "--source", tmp_path / "empty")
    assert "no text to read" in complaint("heads", folder, "--source", tmp_path / "blank")
    assert "penalty must be at least 0" in complaint("heads", folder, "--prune", -1)
    assert 'no task "pos"' in complaint("probe", folder, "--conllu", trees, "--task", "pos")
    said = complaint("probe", folder, "--conllu", trees, "--code", "mdl")
    assert 'no code "mdl"' in said and "information" in said
    assert "xpos has nothing to learn" in complaint("probe", folder, "--conllu", trees, "--task", "xpos")
    assert "no such file" in complaint("probe", folder, "--conllu", tmp_path / "no.conllu")
