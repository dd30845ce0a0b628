"""What does structure do to attention? One row of scores, two bumps in noise, through eight maps.

The scores are constructed. Softmax and sparsemax take each key by itself, so the noise comes through. The
others know that keys stand in a row, or how many may be picked: fusedmax makes flat stretches, a chain
chooses keys together with their neighbours (as SparseMAP: in stretches, the rest 0), a budget gives out six
keys' worth of weight. The continuous maps first replace the scores by one density (the line): two bumps are
more than it can say.
"""

import torch

import regard
from regard.maps import ContinuousSoftmax, ContinuousSparsemax
from regard.views import save
from regard.views.picture import COLOUR, figure

torch.manual_seed(1)
keys = torch.arange(24.0)
scores = 2.2 * torch.exp(-((keys - 7) ** 2) / 8) + 1.6 * torch.exp(-((keys - 17) ** 2) / 3) - 0.6
scores = scores + 0.35 * torch.randn(24)
SETTINGS = {"sparsemap_budget": {"k": 6}, "fusedmax": {"strength": 0.2}}
MAPS = ["softmax", "sparsemax", "fusedmax", "chain", "sparsemap_chain", "sparsemap_budget"]
weights = {name: regard.MAPS[name](scores, **SETTINGS.get(name, {})) for name in MAPS}
densities = {"continuous softmax": ContinuousSoftmax(), "continuous sparsemax": ContinuousSparsemax()}
weights |= {name: map(scores) for name, map in densities.items()}

picture = figure(11, 6)
top, *panels = picture.subplots(3, 3).flat
top.stem(keys, scores, linefmt="#999999", markerfmt=".", basefmt=" ")
top.set_title("scores")
for panel, (name, p) in zip(panels, weights.items(), strict=True):
    there = p != 0  # a weight of exactly 0 has no bar
    panel.bar(keys[there], p[there], color=COLOUR)
    panel.set_title(name)
    if name in densities:
        t = torch.linspace(0, 1, 200)
        panel.plot(24 * t - 0.5, densities[name].density(scores).pdf(t) / 24, color="#c1440e")
for panel in (top, *panels):
    panel.set_xlim(-1, 24)
    panel.spines[["top", "right"]].set_visible(False)
print(save(picture, "what_structure_does.png"))

# Now change k to 2, strength to 1, or the second bump from 1.6 to 0.
