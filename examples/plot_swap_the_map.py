"""What does an attention look at, and what does it only glance at? One attention under three maps.

Query i is key i with noise, so the diagonal is what should be found. Softmax gives the rest of the matrix
weight too; under the sparse maps much of the rest is exactly 0 and is not drawn at all.
"""

import torch

import regard
from regard.views import heat_map, save

torch.manual_seed(0)
words = ["you", "see", "only", "what", "you", "regard"]
keys = torch.randn(len(words), 16)
query = 0.7 * keys + torch.randn(len(words), 16)

weights = {
    name: regard.attend(query, keys, map=name).weights for name in ("softmax", "entmax15", "sparsemax")
}
for name, p in weights.items():
    print(f"{name} gives weight to {int((p > 0).sum())} of {p.numel()} pairs")
print(save(heat_map(weights, source=words, target=words), "swap_the_map.png"))

# Now change 0.7 to 0.2, more noise than signal: what does each map do about it?
