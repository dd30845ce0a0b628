"""Trade-offs: dots, plain numbers on the axis, and a legend where dots are of two kinds."""

import pytest

from regard.views.tradeoff import Candidate, tradeoff

pytest.importorskip("matplotlib")
DOTS = [Candidate("a", 240.0, 0.3, 1.0), Candidate("b", 560.0, 0.8, 0.5, filled=False)]


def drawn(dots):
    picture = tradeoff({"task": dots}, "MiB", "accuracy", {"task": 0.1}, filled="pretrained", hollow="not")
    picture.canvas.draw()
    return picture.axes[0]


def test_the_axis_has_plain_numbers():
    panel = drawn(DOTS)
    labels = [one.get_text() for axis in ("major", "minor") for one in panel.xaxis.get_ticklabels(which=axis)]
    shown = [one for one in labels if one]
    assert shown and all(one.isdecimal() for one in shown)


def test_a_legend_says_what_the_two_kinds_are():
    assert [one.get_text() for one in drawn(DOTS).get_legend().get_texts()] == ["pretrained", "not"]
    assert drawn(DOTS[:1]).get_legend() is None


def test_names_are_in_one_legend_each_with_a_look_of_its_own():
    many = [Candidate(f"mechanism {i}", 300.0 + i, 0.5 + i / 1000, 1.0) for i in range(12)]
    picture = tradeoff({"one": many, "other": many[::-1]}, "MiB", "accuracy")
    (legend,) = picture.legends
    assert [one.get_text() for one in legend.get_texts()] == [one.name for one in many]
    looks = {(line.get_color(), line.get_marker()) for line in legend.get_lines()}
    assert len(looks) == 12
    assert not any(panel.texts for panel in picture.axes)  # names beside crowded dots cannot be read


def test_without_candidates_there_is_no_picture():
    with pytest.raises(ValueError, match="got none"):
        tradeoff({}, "MiB", "accuracy")
