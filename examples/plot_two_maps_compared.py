"""What changes when only the map is swapped? Softmax and 1.5-entmax on the same scores, and their difference.

Blue is where entmax looks more, orange where softmax did: entmax takes from the many small weights and gives
to the few large ones.
"""

import torch

import regard
from regard.views import compare

torch.manual_seed(0)
words = ["you", "see", "only", "what", "you", "regard"]
keys = torch.randn(len(words), 16)
query = 0.7 * keys + torch.randn(len(words), 16)

softmax, entmax = (regard.attend(query, keys, map=name) for name in ("softmax", "entmax15"))
view = compare(softmax, entmax, words, words, names=("softmax", "entmax15"))
print(f"on average {view.distance[0]:.0%} of a row's weight has moved")
print(view.save("two_maps_compared.png"))

# Now change "entmax15" to "sparsemax", in both places: does more of the weight move, or less?
