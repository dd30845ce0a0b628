"""A bridge that has entered itself is asked by `load` and by `swap`."""

import pytest
from torch import nn

import regard
from regard.core.bridges import BRIDGES, Bridge
from regard.core.errors import RunError


class Theirs(nn.Module):
    """An attention of another library."""

    map = "softmax"


@pytest.fixture
def bridge(monkeypatch):
    def swap(model, found, map, score, temperature, heads, cache):
        for module in found.values():
            module.map = map

    found = Bridge(
        opens=lambda folder: (folder / "theirs.json").exists(),
        load=lambda folder, device: (folder.name, device),
        attentions=lambda model: {path: m for path, m in model.named_modules() if isinstance(m, Theirs)},
        swap=swap,
        undo=lambda model, found: [setattr(m, "map", "softmax") for m in found.values()],
    )
    monkeypatch.setitem(BRIDGES.entries, "theirs", found)


def test_load_asks_bridges_for_folders_that_are_no_runs(bridge, tmp_path):
    with pytest.raises(RunError):
        regard.load(tmp_path)
    (tmp_path / "theirs.json").write_text("{}")
    assert regard.load(tmp_path) == (tmp_path.name, "cpu")
    (tmp_path / "config.toml").write_text('task = "translation"\n')  # a run of ours comes first
    with pytest.raises(ValueError):
        regard.load(tmp_path)


def test_swap_changes_attentions_of_both_kinds(bridge):
    model = nn.ModuleDict({"a": Theirs(), "b": Theirs(), "c": nn.MultiheadAttention(8, 2)})
    assert regard.swap(model, "sparsemax", paths=["a", "c"]) is model
    assert (model["a"].map, model["b"].map) == ("sparsemax", "softmax")
    assert model["c"].map is regard.maps.sparsemax
    regard.swap(model, None)
    assert model["a"].map == "softmax" and type(model["c"]) is nn.MultiheadAttention
    alone = regard.swap(nn.ModuleDict({"a": Theirs()}), "sparsemax")
    assert alone["a"].map == "sparsemax"
    with pytest.raises(ValueError, match="nothing to swap"):
        regard.swap(nn.Linear(2, 2))
