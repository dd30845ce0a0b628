"""Which weights can a map give? Three scores (1, 0.7, 0) grow together, from all equal to very different.

Each corner of a triangle is a key that has all the weight; each edge, a key that has none. Softmax comes as
close to the edge as you like and never arrives: every key keeps a little weight. The sparse maps walk into
the edge, drop a key for good, and go on along it to the corner.
"""

import torch
from matplotlib.figure import Figure

import regard
from regard.views import save

MAPS = ["softmax", "entmax15", "sparsemax"]
COLOURS = {"3 keys": "#2f6690", "2 keys": "#d1495b", "1 key": "#edae49"}
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])  # of the triangle: keys 1, 2 and 3
scores = torch.tensor([1.0, 0.7, 0.0])
growth = torch.linspace(0, 3.5, 36)[:, None] ** 2  # the scores times this

figure = Figure(figsize=(9, 3), layout="constrained")
for panel, name in zip(figure.subplots(1, len(MAPS)), MAPS, strict=True):
    weights = regard.MAPS[name](growth * scores)  # (36, 3)
    panel.plot(*CORNERS[[0, 1, 2, 0]].T, color="#999999", linewidth=1)
    for size, (label, colour) in zip((3, 2, 1), COLOURS.items(), strict=True):
        points = (weights @ CORNERS)[(weights > 0).sum(-1) == size]
        panel.scatter(*points.T, s=16, color=colour, label=label, zorder=2)
    for key, (x, y) in enumerate(CORNERS.tolist(), start=1):
        panel.text(x, y + (0.04 if y else -0.1), f"key {key}", ha="center", color="#666666")
    panel.set_title(name, pad=14)
    panel.set_aspect("equal")
    panel.set_axis_off()
handles = panel.get_legend_handles_labels()
figure.legend(*handles, loc="outside right center", title="with a weight", frameon=False)
print(save(figure, "maps_on_the_simplex.png"))

# Now change scores to three that are closer together, or MAPS to any names in regard.MAPS.
