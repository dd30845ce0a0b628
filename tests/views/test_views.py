"""Pictures show what there is, and nothing where the weight is exactly 0."""

import json
import re
from dataclasses import replace

import matplotlib
import pytest
import torch
from every import EVERY, SOURCE, TARGET, M, N, weights
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.core.errors import ShapeError
from regard.views import (
    View,
    bars,
    compare,
    growth,
    heads,
    heat_map,
    image,
    layers,
    lines,
    save,
    steps,
    words,
)
from regard.views.matrix_figure import short
from regard.views.picture import BELOW, COLOUR, check_file, shades
from regard.views.ramps import EQUAL, place

WEIGHTS = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1e-9, 1.0]])
every_view = pytest.mark.parametrize("name", EVERY)
pytestmark = pytest.mark.filterwarnings("ignore:Glyph")  # not every machine has a font for emoji


@every_view
def test_it_becomes_a_file(name, tmp_path):
    view = EVERY[name]()
    for kind, begins in [
        ("png", b"\x89PNG"),
        ("svg", b"<?xml"),
        ("pdf", b"%PDF"),
        ("html", b"<!DOCTYPE html>"),
    ]:
        path = save(view, tmp_path / "new" / f"picture.{kind}")
        assert path.read_bytes().startswith(begins)
    assert len(list((tmp_path / "new").iterdir())) == 4


@every_view
def test_its_data_are_plain_and_clean(name):
    view = EVERY[name]()
    data = view.data()
    assert isinstance(view, View) and data["kind"] == view.kind == name and data["format"] == 1
    text = json.dumps(data, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode("utf-8")) == data  # no lone surrogate is left
    assert not re.search(r"[\x00-\x1f\x7f]", "".join(_strings(data)))


@every_view
def test_it_leaves_matplotlib_as_it_was(name, tmp_path):
    before = dict(matplotlib.rcParams)
    EVERY[name]().save(tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before


def test_text_of_an_svg_is_text_and_escaped(tmp_path):
    text = heat_map(weights(), SOURCE, TARGET).save(tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "&lt;/script&gt;" in text and "<img" not in text and "<b>" not in text


def test_a_figure_of_anybodys_can_be_saved(tmp_path):
    assert save(Figure(), tmp_path / "a.png").exists()
    with pytest.raises(ValueError, match=r"no page.*a\.html"):
        save(Figure(), tmp_path / "a.html")


def test_a_weight_of_zero_has_no_bar_and_a_tiny_one_has():
    picture = bars({"first": WEIGHTS[0], "second": WEIGHTS[1]}).figure()
    drawn = [[p.get_height() for p in panel.patches if isinstance(p, Rectangle)] for panel in picture.axes]
    assert [len(heights) for heights in drawn] == [2, 2]
    assert all(height > 0 for heights in drawn for height in heights)


def test_a_weight_of_zero_has_no_cell_and_a_tiny_one_has():
    (image,) = heat_map(WEIGHTS).figure().axes[0].images
    colours = image.get_array()  # red, green, blue and opacity, in bytes
    assert (colours[..., 3] == [[255, 255, 0], [0, 255, 255]]).all()  # what is left out is transparent
    assert (colours[1, 1, :3] < 255).any()  # and the palest shade is not white


def test_a_weight_of_zero_has_no_line_and_the_largest_is_the_broadest():
    (drawn,) = lines(WEIGHTS).figure().axes[0].collections
    assert len(drawn.get_segments()) == 4
    widths = drawn.get_linewidths()
    assert widths[-1] == max(widths) and min(widths) > 0
    assert drawn.get_segments()[-1][:, 1].tolist() == [2.0, 1.5]  # source 3 of 3, target 2 of 2 in the middle


def test_a_word_of_weight_zero_has_neither_colour_nor_bar():
    picture = words(torch.tensor([0.25, 0.0, 0.75]), ["a", "b", "c"]).figure()
    found = [p for p in picture.axes[0].patches if isinstance(p, Rectangle)]
    assert len(found) == 4  # two words have a background and a bar
    bars_drawn = [p for p in found if p.get_height() < 0.1]
    assert bars_drawn[0].get_width() < bars_drawn[1].get_width()


def test_source_goes_across_and_target_down():
    panel = heat_map(torch.rand(2, 3), source=["a", "b", "c"], target=["u", "v"]).figure().axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["u", "v"]


@pytest.mark.parametrize("n", [20, 300])
def test_long_sentences_keep_all_their_labels_apart(n):
    picture = heat_map(torch.rand(n, n), [f"word{i}" for i in range(n)], [str(i) for i in range(n)]).figure()
    panel = picture.axes[0]
    shown = panel.get_yticklabels()
    assert [label.get_text() for label in shown] == [str(i) for i in range(n)]
    inches = panel.get_position().height * picture.get_figheight() / n
    assert inches * 72 > shown[0].get_fontsize()  # a line of letters fits in a row


def test_very_long_ones_keep_some():
    panel = heat_map(torch.eye(1000), [f"w{i}" for i in range(1000)]).figure().axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()][:3] == ["w0", "w3", "w6"]


def test_long_words_are_cropped_on_paper_and_whole_on_the_page():
    view = heat_map(torch.ones(1, 1), ["a" * 100], ["b"])
    assert view.figure().axes[0].get_xticklabels()[0].get_text() == "a" * 17 + "…"
    assert view.data()["source"] == ["a" * 100]


def test_the_caption_says_what_it_is_and_what_it_is_not():
    import regard

    seen = regard.attend(torch.randn(2, 4), torch.randn(3, 4), map="entmax15")
    data = heat_map(seen).data()
    assert data["caption"].startswith("Score: scaled_dot. Map: entmax15.")
    assert "not yet why" in data["note"]
    assert any(data["caption"][:20] in text.get_text() for text in heat_map(seen).figure().texts)
    assert heat_map(seen, caption="mine").data()["caption"] == "mine"


def test_compare_shows_both_and_the_difference():
    p, q = weights(map="softmax").double(), weights().double()
    view = compare(p, q, SOURCE, TARGET, names=("p", "q"))
    first, second, difference = view.matrices
    assert [one.name for one in view.matrices] == ["p", "q", "q − p"]
    torch.testing.assert_close(torch.from_numpy(difference.weights), q - p)
    assert difference.signed and not first.signed and view.data()["matrices"][2]["signed"] is True
    assert view.distance[0] == pytest.approx(float((p - q).abs().sum(-1).mean() / 2))
    assert compare(p, p).distance == (0.0,)


@pytest.mark.parametrize("name", ["heat_map", "heads", "layers", "compare", "image"])
def test_colours_have_a_scale_on_paper(name):
    picture = EVERY[name]().figure()
    assert any(len(bar.get_yticklabels()) > 1 and bar.get_xlim() == (0, 1) for bar in picture.axes[-1:])


def test_two_systems_that_said_different_things_have_no_difference():
    view = compare(weights(m=3), weights(m=2), SOURCE, ["a", "b", "c"], second_target=["x", "y"])
    data = view.data()
    assert data["group"] == 2 and "distance" not in data and len(view.matrices) == 2
    assert data["matrices"][1]["target"] == ["x", "y"] and "target" not in data["matrices"][0]


def test_steps_of_a_decoder_that_sees_more_and_more_are_joined():
    view = steps([torch.ones(1, 1), torch.tensor([[0.25, 0.75]])], ["<s>", "a"], ["a", "b"])
    assert view.matrices[0].weights.tolist() == [[1, 0], [0.25, 0.75]]
    generated = [tuple(torch.full((1, 2, 1, 3), 1 / 3) for _ in range(2)) for _ in range(4)]  # steps × layers
    found = steps(generated)
    names = [one.name for one in found.matrices]
    assert names[:3] == ["layer 1, head 1", "layer 1, head 2", "layer 2, head 1"]
    assert found.matrices[0].weights.shape == (4, 3)


def test_layers_average_heads_and_say_so():
    given = [weights(2, seed=0), weights(2, seed=1)]
    view = layers(given, SOURCE, TARGET)
    assert [one.name for one in view.matrices] == ["layer 1", "layer 2"]
    torch.testing.assert_close(torch.from_numpy(view.matrices[1].weights), given[1].mean(0))
    assert (
        "mean of 2 heads" in view.caption and "mean" not in layers(torch.stack([g[0] for g in given])).caption
    )


def test_an_image_comes_in_bytes_or_numbers_and_either_way_round():
    picture = torch.zeros(3, 4, 6)
    picture[0] = 1
    for given in (picture, picture.permute(1, 2, 0), (picture * 255).byte(), (picture * 255).byte().numpy()):
        assert image(weights(n=6), given, grid=(2, 3)).picture[0, 0].tolist() == [255, 0, 0]
    assert image(weights(n=9), torch.rand(5, 5)).grid == (3, 3)


def test_weights_of_nothing_at_all_are_drawn(tmp_path):
    assert save(heat_map(torch.zeros(2, 2)), tmp_path / "a.png").exists()
    assert save(bars({"a": torch.zeros(2)}), tmp_path / "b.png").exists()
    assert save(lines(torch.zeros(2, 2)), tmp_path / "c.png").exists()
    assert save(words(torch.zeros(2, 2)), tmp_path / "d.png").exists()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: heat_map(torch.rand(2, 2, 2, 3)), r"\(m, n\).*\(2, 2, 2, 3\).*pick one"),
        (lambda: heat_map(torch.rand(3)), r"\(m, n\).*\(3,\)"),
        (lambda: heat_map({"a": torch.rand(2, 3), "b": torch.rand(3, 2)}), "one shape"),
        (lambda: heat_map(torch.rand(2, 3), source=["a"]), "source must have 3 tokens; got 1"),
        (lambda: heat_map(torch.rand(2, 3), target=["a"]), "target must have 2 tokens; got 1"),
        (lambda: heat_map(torch.rand(0, 3)), "at least one query"),
        (lambda: heat_map(torch.zeros(5000, 5000)), r"at most 16,777,216.*got 25,000,000"),
        (lambda: compare(torch.rand(2, 2, 3), torch.rand(3, 2, 3)), "as many matrices; got 2 and 3"),
        (lambda: compare(torch.rand(2, 3), torch.rand(2, 4), second_target=["a", "b"]), "one source"),
        (lambda: layers(torch.rand(2, 3)), r"\(layers, m, n\); got \(2, 3\)"),
        (lambda: image(torch.rand(2, 7), torch.rand(4, 4, 3)), r"rows · columns = 7; got \(3, 3\)"),
        (lambda: image(torch.rand(2, 4), torch.rand(4, 4, 5)), r"picture must be.*\(4, 4, 5\)"),
        (lambda: bars({"a": torch.rand(2), "b": torch.rand(3)}), "same n"),
        (lambda: bars({"a": torch.rand(2)}, ["x"]), "labels must have 2"),
    ],
)
def test_wrong_shapes_are_named(call, says):
    with pytest.raises(ShapeError, match=says):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bars({}), "at least one map"),
        (lambda: growth(seconds={}), "at least one curve"),
        (lambda: heat_map([]), "at least one matrix"),
        (lambda: heat_map(torch.rand(2, 2), ramp="jet"), "even, black_to_white; got 'jet'"),
        (lambda: heat_map(torch.tensor([[0.5, float("nan")]])), "finite; 1 are NaN"),
        (lambda: heat_map(torch.rand(2, 2, 2), head=2), "head=2"),
        (lambda: heat_map([torch.rand(1, 7, 2, 2)] * 2).figure(), "at most 12 matrices; got 14"),
        (lambda: words(torch.rand(41, 2)).figure(), "at most 40 rows"),
        (lambda: steps(torch.rand(2, 3, 2)).figure(), "need one matrix; got 2"),
        (lambda: layers(torch.rand(2, 13, 2)).figure(), "at most 12 target words"),
        (lambda: image(torch.rand(41, 4), torch.rand(2, 2, 3)).figure(), "at most 40 words"),
        (lambda: image(torch.rand(1, 4), -torch.rand(2, 2, 3)), "between 0 and 1"),
    ],
)
def test_what_cannot_be_drawn_is_an_error_that_says_why(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_an_unknown_kind_of_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"html.*png.*got picture\.foo"):
        save(bars({"a": torch.ones(1)}), tmp_path / "picture.foo")
    assert not list(tmp_path.iterdir())
    assert check_file("a.PNG") == "png"


def test_without_matplotlib_the_extra_is_named_and_pages_need_none(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    view = heads([weights(2)], SOURCE, TARGET)
    with pytest.raises(ImportError, match=r"pictures need matplotlib: pip install 'regard\[plot\]'"):
        view.figure()
    assert view.save(tmp_path / "a.html").exists()
    assert view.matrices[0].weights.shape == (M, N)


def _strings(data):
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _strings(value)


def test_words_with_scores_below_0_have_the_other_ramp_and_other_bars():
    def bars_of(scores):
        axes = words(torch.tensor(scores), ["a", "b", "c"]).drawn().axes[0]
        found = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        return [to_hex(patch.get_facecolor()) for patch in found[1::2]], [
            patch.get_facecolor() for patch in found[::2]
        ]

    thin, wide = bars_of([0.5, -0.5, 0.0])
    assert thin == [COLOUR, BELOW] and wide[0] != wide[1]  # what is exactly 0 has neither
    assert bars_of([0.5, 0.25, 0.0])[0] == [COLOUR, COLOUR]
    signed, unsigned = bars_of([0.5, -0.25, 0.0])[1][0], bars_of([2 / 3, 1 / 3, 0.0])[1][0]
    assert signed == pytest.approx(unsigned, abs=0.02)  # two thirds of the scores: one colour


def test_bars_say_what_they_are_of():
    assert bars({"a": torch.ones(2)}).data()["unit"] == "weight"
    view = bars({"a": torch.ones(2)}, unit="$kbit$")
    assert view.data()["unit"] == "$kbit$"
    assert view.drawn()._supylabel.get_text() == "$kbit$"


def test_a_words_colour_follows_from_its_weight_and_the_number_of_words():
    assert [place(1 / n, n) for n in (2, 4, 11, 400)] == [pytest.approx(EQUAL)] * 4  # an equal share
    assert [place(w, n) for n in (1, 2, 50) for w in (0, 1)] == [0, 1] * 3
    assert place(0.08, 100) - place(0.005, 100) > 0.2  # the words of a long text still differ
    axes = words(torch.full((4,), 0.25), list("abcd")).drawn().axes[0]
    assert axes.patches[0].get_facecolor() == pytest.approx(shades()(EQUAL), abs=0.01)  # pale, not black


LONG = ["a", *["incomprehensibilities"] * 3, "unbelievable", "last"]


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("source", [["one", "word"], LONG, LONG * 18, ["שלום", "עולם"]])
def test_nothing_of_a_text_on_paper_is_clipped_and_it_has_a_legend(source, shares):
    n = len(source)
    view = words(torch.full((n,), 1 / n), source, shares=shares, title="predicted: 1 (probability 0.976)")
    picture = replace(view, unknown=(0,)).figure()
    picture.draw_without_rendering()
    whole = picture.bbox
    texts = [text for text in (*picture.texts, *picture.axes[0].texts) if text.get_text()]
    for text in texts:
        box = text.get_window_extent()
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1, text
    said = " ".join(text.get_text() for text in texts)
    assert f"an equal share, 1/{n} = " in said and "unknown to the model" in said


@pytest.mark.parametrize("view", [heat_map, lines])
def test_unknown_words_are_boxed_on_paper(view):
    picture = replace(view(torch.ones(1, 2), ["a", "b"], ["c"]), unknown=(1,)).figure()
    panel = picture.axes[0]
    boxed = {text.get_text(): text.get_bbox_patch() for text in (*panel.texts, *panel.get_xticklabels())}
    assert boxed["b"] is not None and boxed["a"] is None
    assert any("dotted box is unknown" in text.get_text().replace("\n", " ") for text in picture.texts)


def test_a_cell_says_nothing_where_it_would_say_less_than_a_hundredth():
    assert [short(w) for w in (0.004, -0.004, 0.006, -0.25, 1.0)] == ["", "", ".01", "−.25", "1"]


def test_raw_scores_are_no_weights():
    with pytest.raises(ValueError, match=r"got -4 to 3. Raw scores become weights by a map"):
        heat_map(torch.tensor([[3.0, -4.0]]))
    heat_map(torch.tensor([[0.5, -0.5]]))  # a difference


def test_many_curves_have_one_legend_beside_the_panels():
    pytest.importorskip("matplotlib")
    curves = {f"mechanism {i}": [(256, 1.0 + i), (512, 2.0 + i)] for i in range(12)}
    picture = growth(seconds=curves, bytes=curves).drawn()
    (legend,) = picture.legends
    assert [one.get_text() for one in legend.get_texts()] == list(curves)
    assert all(panel.get_legend() is None for panel in picture.axes)
    few = growth(seconds=dict(list(curves.items())[:3])).drawn()
    assert not few.legends and few.axes[0].get_legend() is not None
