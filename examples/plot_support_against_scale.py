"""How many keys does a query look at? The number with a weight, as the scores of 1,000 keys grow.

Random scores N(0, 1) are multiplied by a number that grows. It decides what sparse attention can save: its
work goes with this curve, softmax's with the dashed line.
"""

import torch
from matplotlib.figure import Figure

import regard
from regard.views import save

torch.manual_seed(0)
scores = torch.randn(50, 1000)
scale = torch.logspace(-2, 1, 30)

figure = Figure(figsize=(5.5, 3.6), layout="constrained")
panel = figure.subplots()
for name in ("entmax15", "sparsemax"):
    support = [float((regard.MAPS[name](s * scores) > 0).sum(-1).float().mean()) for s in scale]
    panel.plot(scale, support, label=name)
panel.axhline(scores.shape[-1], color="#999999", linestyle="--", label="softmax")
panel.set(xscale="log", yscale="log", xlabel="scores times this", ylabel="keys with a weight (mean)")
panel.legend(frameon=False)
panel.spines[["top", "right"]].set_visible(False)
print(save(figure, "support_against_scale.png"))

# Now change randn to rand: scores without a long tail. Which map notices?
