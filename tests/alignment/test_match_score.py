"""The match score of Koehn & Knowles, by hand; and their boxes over weights."""

import pytest
import torch
from matplotlib.patches import Rectangle

from regard.alignment import Links, match_score
from regard.views import heat_map

P = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.1, 0.4, 0.5]])


def test_match_and_mass_by_hand():
    """Word 0 looks at its link, word 1 at another, word 2 at one of two; a fourth has no link."""
    links = Links.of([(0, 0), (1, 1), (1, 2), (2, 2)])
    weights = torch.cat([P, torch.tensor([[1.0, 0.0, 0.0]])])
    found = match_score([(weights, links)])
    assert found.match == pytest.approx(2 / 3) and found.words == 3
    assert found.mass == pytest.approx((0.7 + 0.3 + 0.9) / 3)
    assert match_score([]) == (0, 0, 0)


def test_links_outside_of_the_sentence_are_refused():
    with pytest.raises(ValueError, match="within 3 source and 3 target words"):
        match_score([(P, Links.of([(3, 0)]))])
    with pytest.raises(ValueError, match=r"got \(0, 3\)"):
        heat_map(P, links=[(0, 3)])
    with pytest.raises(ValueError, match="at most 2,500 cells; got 60 × 60"):
        heat_map(torch.full((60, 60), 1 / 60), links=[(0, 0)])


def test_links_are_boxes_in_the_picture_and_on_the_page():
    """A link (source i, target j) is a box in column i and row j."""
    view = heat_map(P, ["a", "b", "c"], ["x", "y", "z"], links=[(2, 0), (0, 1)])
    boxes = [patch for patch in view.figure().axes[0].patches if isinstance(patch, Rectangle)]
    assert [box.get_xy() for box in boxes] == [(-0.5, 0.5), (1.5, -0.5)]
    assert not any(box.get_fill() for box in boxes)
    assert view.data()["links"] == [[0, 1], [2, 0]]
    assert heat_map(P).data()["links"] == [] and "regard-link" in view.page()
