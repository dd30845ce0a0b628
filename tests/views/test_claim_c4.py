"""Claim C4: the lectures' heat map has the source across and the target down, 0 black and 1 white."""

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

import regard
from regard.views import heat_map

SOURCE, TARGET = ["the", "black", "cat", "sat"], ["le", "chat", "noir"]
P = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.25, 0.75, 0.0], [0.0, 1.0, 0.0, 0.0]])


def test_the_colour_of_every_cell_is_its_weight_in_grey():
    picture = heat_map(P, SOURCE, TARGET, ramp="black_to_white").figure()
    canvas, panel = FigureCanvasAgg(picture), picture.axes[0]
    for text in panel.texts:
        text.set_visible(False)  # the number in the middle of the cell
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    for (i, j), weight in np.ndenumerate(P.numpy()):
        x, y = panel.transData.transform((j, i))  # source j across, target i down
        colour = pixels[len(pixels) - 1 - int(y), int(x)]
        assert (colour == colour[0]).all()
        assert abs(int(colour[0]) - 255 * weight) <= 1
        assert colour[0] in (0, 255) or 0 < weight < 1  # 0 is black and 1 white exactly


def test_its_words_stand_where_they_should():
    panel = heat_map(P, SOURCE, TARGET, ramp="black_to_white").figure().axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == SOURCE
    assert [label.get_text() for label in panel.get_yticklabels()] == TARGET
    assert panel.yaxis_inverted() and not panel.xaxis_inverted()  # the first target word is on top


def test_white_is_one_whatever_the_largest_weight_is():
    view = heat_map(P / 2, ramp="black_to_white")
    assert view.most == 1 and heat_map(P / 2).most == 0.5
    (image,) = view.figure().axes[0].images
    assert image.get_array()[0, :2, 0].tolist() == [128, 0]  # half is grey, nothing is black


def test_the_rows_of_what_a_model_looks_at_sum_to_one():
    torch.manual_seed(0)
    seen = regard.attend(torch.randn(3, 8), torch.randn(4, 8))
    shown = torch.tensor(
        heat_map(seen, SOURCE, TARGET, ramp="black_to_white").data()["matrices"][0]["weights"]
    )
    torch.testing.assert_close(shown.sum(-1), torch.ones(3), atol=1e-4, rtol=0)
