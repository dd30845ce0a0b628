"""Densities over a picture as ellipses."""

import numpy as np
import pytest
import torch

from regard.continuous import TruncatedParaboloid
from regard.core.errors import ShapeError
from regard.views import image
from regard.views.ellipses import Ellipse

MEAN, COVARIANCE = [0.4, 0.6], [[0.02, 0.006], [0.006, 0.01]]


def test_a_contour_has_the_same_distance_from_the_mean_everywhere():
    ellipse = Ellipse(MEAN, COVARIANCE)
    for radius in (1.0, 2.0):
        away = ellipse.contour(radius) - MEAN
        distance = np.einsum("ki,ij,kj->k", away, np.linalg.inv(COVARIANCE), away)
        assert np.allclose(distance, radius**2)
        assert np.allclose(ellipse.contour(radius)[0], ellipse.contour(radius)[-1])


def test_the_edge_of_a_truncated_paraboloid_is_at_the_root_of_six():
    density = TruncatedParaboloid(torch.tensor(MEAN), torch.tensor(COVARIANCE))
    ellipse = Ellipse(MEAN, COVARIANCE, (1.0, 6**0.5))
    inside, edge = (torch.tensor(ellipse.contour(r)).float() for r in (6**0.5 * 0.99, 6**0.5))
    assert (density.pdf(inside) > 0).all() and torch.allclose(density.pdf(edge), torch.tensor(0.0), atol=1e-4)


def test_ellipses_are_in_the_file_and_in_what_the_browser_draws(tmp_path):
    weights, one = torch.full((2, 6), 1 / 6), Ellipse(MEAN, COVARIANCE)
    view = image(weights, torch.rand(8, 12, 3), ["a", "b"], grid=(2, 3), ellipses=[[one, one]])
    sent = view.data()["matrices"][0]["ellipses"]
    assert len(sent) == 2 and np.allclose(np.array(sent[0]["axes"]) @ np.array(sent[0]["axes"]).T, COVARIANCE)
    panels = view.drawn().axes
    assert [len(panel.lines) for panel in panels[:3]] == [0, 5, 5]
    line = panels[1].lines[1]  # the first contour, in pixels across and down
    assert np.allclose(line.get_xdata(), one.contour(1.0)[:, 1] * 12)
    assert np.allclose(line.get_ydata(), one.contour(1.0)[:, 0] * 8)
    plain = image(weights, torch.rand(8, 12, 3), grid=(2, 3))
    assert "ellipses" not in plain.data()["matrices"][0]


def test_what_is_no_ellipse_is_refused():
    with pytest.raises(ShapeError, match=r"a mean \(2,\) and a covariance \(2, 2\)"):
        Ellipse([0.1], COVARIANCE)
    with pytest.raises(ValueError, match="positive definite"):
        Ellipse(MEAN, [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ShapeError, match="ellipses must be 1 lists"):
        image(torch.full((2, 4), 0.25), torch.rand(4, 4, 3), ellipses=[[Ellipse(MEAN, COVARIANCE)]])
