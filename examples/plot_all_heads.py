"""Do the heads of one layer look at different things? Three layers of four heads, all on one scale.

Nobody trained these heads: whatever they seem to look at, they know nothing. Saved as
all_heads.html, the same view enlarges the head one clicks.
"""

import torch

import regard
from regard.views import heads

torch.manual_seed(0)
words = ["the", "law", "is", "never", "perfect", "but", "its", "use", "should", "be", "just"]
layers = torch.nn.ModuleList(regard.MultiHead(32, heads=4, map="entmax15") for _ in range(3))
x = 3 * torch.randn(1, len(words), 32)

with regard.record(layers) as seen:
    for layer in layers:
        x = x + layer(x, x, mask=regard.masks.Causal()).context
recorded = [calls[0] for calls in seen.values()]  # one Attended per layer, (1, heads, m, n) weights each
print(f"{len(recorded)} layers with weights of shape {tuple(recorded[0].weights.shape)}")
print(heads(recorded, words, words, title="Untrained heads").save("all_heads.png"))

# Now change map to "softmax": do the heads still look as if they had found something?
