"""Which source words did each target word look at? A heat map as in the lectures: 0 is black, 1 is white.

Words that mean the same have nearly the same vector here, so the weights show the alignment of the two
sentences: French turns "European Economic Area" round, which shows as a line against the diagonal.
"""

import torch

import regard
from regard.views import heat_map

torch.manual_seed(0)
source = ["the", "agreement", "on", "the", "European", "Economic", "Area", "was", "signed"]
target = ["l’", "accord", "sur", "la", "zone", "économique", "européenne", "a", "été", "signé"]
means = [0, 1, 2, 3, 6, 5, 4, 7, 7, 8]  # the source word that each target word stands for
keys = torch.randn(len(source), 32)
query = keys[means] + 0.3 * torch.randn(len(target), 32)

seen = regard.attend(query, keys)
print(f"the largest weight is {seen.weights.max():.2f}, and every row sums to 1")
print(heat_map(seen, source, target, ramp="black_to_white").save("heat_map.png"))

# Now change ramp to "even": can you tell a weight of 0.01 from one of 0?
