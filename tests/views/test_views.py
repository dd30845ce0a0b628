"""Pictures show what there is, and nothing where the weight is exactly 0."""

import pytest
import torch
from matplotlib.patches import Rectangle

from regard.core.errors import ShapeError
from regard.views import bars, growth, heat_map, save
from regard.views.picture import check_file

WEIGHTS = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1e-9, 1.0]])
every_view = pytest.mark.parametrize(
    "picture",
    [
        lambda: bars({"a": WEIGHTS[0], "b": WEIGHTS[1]}, ["x", "$y$", "z"]),
        lambda: heat_map(WEIGHTS, ["x", "$y$", "_"], ["u", "v"]),
        lambda: heat_map({"a": WEIGHTS, "b": WEIGHTS}),
        lambda: growth(seconds={"ours": [(64, 0.1), (512, 0.4)]}, mebibytes={"ours": [(64, 3.0)]}),
    ],
    ids=["bars", "heat_map", "heat_maps", "growth"],
)


@every_view
@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_it_becomes_a_file(picture, kind, begins, tmp_path):
    path = save(picture(), tmp_path / "new" / f"picture.{kind}")
    assert path.read_bytes().startswith(begins)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_weight_of_zero_has_no_bar_and_a_tiny_one_has():
    picture = bars({"first": WEIGHTS[0], "second": WEIGHTS[1]})
    drawn = [[p.get_height() for p in panel.patches if isinstance(p, Rectangle)] for panel in picture.axes]
    assert [len(heights) for heights in drawn] == [2, 2]
    assert all(height > 0 for heights in drawn for height in heights)


def test_a_weight_of_zero_has_no_cell_and_a_tiny_one_has():
    (image,) = heat_map(WEIGHTS).axes[0].images
    assert image.get_array().mask.tolist() == [[False, False, True], [True, False, False]]
    colours = image.to_rgba(image.get_array())
    assert (colours[..., 3] == [[1, 1, 0], [0, 1, 1]]).all()  # what is left out is transparent
    assert (colours[1, 1, :3] < 1).any()  # and the palest shade is not white


def test_source_goes_across_and_target_down():
    panel = heat_map(torch.rand(2, 3), source=["a", "b", "c"], target=["u", "v"]).axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["u", "v"]


def test_weights_of_nothing_at_all_are_drawn(tmp_path):
    assert save(heat_map(torch.zeros(2, 2)), tmp_path / "a.png").exists()
    assert save(bars({"a": torch.zeros(2)}), tmp_path / "b.png").exists()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: heat_map(torch.rand(1, 2, 3)), r"\(m, n\).*\(1, 2, 3\)"),
        (lambda: heat_map({"a": torch.rand(2, 3), "b": torch.rand(3, 2)}), "one shape"),
        (lambda: heat_map(torch.rand(2, 3), source=["a"]), "source must have 3 tokens; got 1"),
        (lambda: heat_map(torch.rand(2, 3), target=["a"]), "target must have 2 tokens; got 1"),
        (lambda: bars({"a": torch.rand(2), "b": torch.rand(3)}), "same n"),
        (lambda: bars({"a": torch.rand(2)}, ["x"]), "labels must be 2"),
    ],
)
def test_wrong_shapes_are_named(call, says):
    with pytest.raises(ShapeError, match=says):
        call()


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="at least one map"):
        bars({})
    with pytest.raises(ValueError, match="at least one curve"):
        growth(seconds={})


def test_an_unknown_kind_of_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"png.*got picture\.foo"):
        save(bars({"a": torch.ones(1)}), tmp_path / "picture.foo")
    assert not list(tmp_path.iterdir())
    assert check_file("a.PNG") == "png"


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pictures need matplotlib: pip install 'regard\[plot\]'"):
        bars({"a": torch.ones(1)})
