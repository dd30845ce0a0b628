"""Where on a picture does each word of its caption look? Cells of a grid, found by their colour.

Constructed: the keys are the mean colours of 8 × 12 cells and the queries are colours by name, so nothing was
learned: the words find what they name because both are colours.
"""

import torch

import regard
from regard.views import image

picture = torch.empty(64, 96, 3)
picture[:40] = torch.tensor([0.55, 0.75, 0.95])  # sky
picture[40:] = torch.tensor([0.25, 0.60, 0.25])  # grass
down, across = torch.meshgrid(torch.arange(64), torch.arange(96), indexing="ij")
picture[(down - 14) ** 2 + (across - 74) ** 2 < 80] = torch.tensor([0.98, 0.85, 0.20])  # sun
picture[28:52, 14:40] = torch.tensor([0.75, 0.20, 0.15])  # house

named = {"red": [0.75, 0.2, 0.15], "yellow": [0.98, 0.85, 0.2], "green": [0.25, 0.6, 0.25]}
cells = picture.reshape(8, 8, 12, 8, 3).mean((1, 3)).reshape(96, 3)
query = torch.tensor(list(named.values()))
near = regard.attend(8 * (query - 0.5), 8 * (cells - 0.5), score="cosine", map="sparsemax")
print({word: int((p > 0).sum()) for word, p in zip(named, near.weights, strict=True)}, "cells have weight")
print(image(near, picture, list(named), grid=(8, 12)).save("picture_looked_at.png"))

# Now change map to "softmax": is there a cell that no word looks at?
