"""regard heads and regard probe with --out: the tables as pictures."""

import json
import re

import pytest
import torch

from commands import run
from regard.analyses import Codelength, HeadRoles, HeadScore, Probed, Pruned
from regard.analyses.analysis_views import codelengths_view, gates_view, roles_view
from regard.analyses.probing import ProbingData
from regard.cli.common import save_picture
from regard.views import words


def head(layer, number, share, plays=False):
    best = HeadScore("−1", share, 0.07, 10, plays)
    rare = HeadScore("", share / 2, 0.05 + 0.1 * layer, 10, False)
    return HeadRoles(
        layer, number, {"positional": [best, HeadScore("+1", 0.0, 0.07, 10, False)], "rare words": [rare]}
    )


def test_heads_are_a_grid_for_each_role():
    shares = torch.tensor([[0.25, 0.5, 0.75], [0.0, 0.95, 0.125]])
    view = roles_view(
        [head(i, j, float(shares[i, j]), plays=shares[i, j] > 0.9) for i in (0, 1) for j in (0, 1, 2)]
    )
    data = view.data()
    assert [map["name"] for map in data["matrices"]] == ["positional", "rare words"]
    torch.testing.assert_close(torch.tensor(data["matrices"][0]["weights"]), shares)
    torch.testing.assert_close(torch.tensor(data["matrices"][1]["weights"]), shares / 2)
    assert data["source"] == ["head 1", "head 2", "head 3"] and data["target"] == ["layer 1", "layer 2"]
    assert (
        "2.2 positional" in data["caption"] and "positional 0.07, rare words 0.05 to 0.15" in data["caption"]
    )
    assert data["note"] == ""  # these are no weights
    assert "No head has a role" in roles_view([head(0, 0, 0.1)]).data()["caption"]


def test_pruned_heads_are_a_grid_for_each_price():
    figures = {"loss": 1.0, "accuracy": 0.5}
    found = [
        Pruned(price, {"a": [1.0, gate], "b": [0.0, gate]}, figures, figures, torch.nn.Identity())
        for price, gate in ((0.0, 0.5), (2.0, 0.0))
    ]
    data = gates_view(found).data()
    assert [map["name"] for map in data["matrices"]] == ["price 0: 3 of 4", "price 2: 1 of 4"]
    assert data["matrices"][0]["weights"] == [[1, 0.5], [0, 0.5]]


def test_codelengths_are_bars_by_layer():
    found = [
        Probed(layer, Codelength(1000.0 * (3 - layer), 90, 4, 0.5), Codelength(4000.0, 90, 4, 0.25))
        for layer in (0, 1, 2)
    ]
    words = ProbingData(torch.zeros(3, 90, 2), torch.arange(90) % 4, ("a", "b", "c", "d"), ["x"] * 90)
    data = codelengths_view(found, "upos", "online", words).data()
    assert [(row["name"], row["weights"]) for row in data["rows"]] == [
        ("upos", [3, 2, 1]), ("control task", [4, 4, 4])
    ]  # fmt: skip
    assert data["unit"] == "kbit" and data["labels"] == ["0", "1", "2"]
    assert "Without any knowledge 0.2 kbit" in data["caption"]  # 90 × log₂ 4 bits


@pytest.fixture
def folder(tiny_run):
    return tiny_run("translation").folder


def test_characters_without_a_glyph_are_one_remark(tmp_path, capsys):
    for file, remarks in (("a.png", 1), ("a.html", 0)):
        save_picture(words(torch.tensor([[0.5, 0.5]]), ["a", "\U000f0000"]), tmp_path / file, quiet=True)
        said = capsys.readouterr().err
        assert said.count("drawn as boxes") == remarks and "Warning" not in said


@pytest.mark.parametrize("ending", ["html", "png"])
def test_the_commands_draw(folder, tmp_path, ending):
    (tmp_path / "s").write_text("ba de fi\nga ga ku le\n")
    file = tmp_path / f"heads.{ending}"
    done = run("heads", folder, "--source", tmp_path / "s", "--out", file)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(file)
    if ending == "html":
        found = re.search('<script type="application/json"[^>]*>(.*?)</script>', file.read_text())[1]
        assert json.loads(found)["kind"] == "heat_map"
    else:
        assert file.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_said_before_the_work(folder, tmp_path):
    done = run("heads", folder, "--source", tmp_path / "none", "--out", tmp_path / "heads.doc")
    assert done.exit_code == 2 and "heads.doc" in done.stderr
    done = run("probe", folder, "--conllu", tmp_path / "none", "--out", tmp_path / "probe.doc")
    assert done.exit_code == 2 and "probe.doc" in done.stderr
