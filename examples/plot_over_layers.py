"""What has a word seen after one layer, after two, after six? Weights over layers, multiplied up.

Constructed: six layers of random weights, of no trained model. Each layer mixes what the one below has mixed:
with the residual counted as half, the product of the layers says how much of each input word is left in the
last one (Abnar & Zuidema, 2020, arXiv:2005.00928: rollout).
"""

import torch

import regard
from regard.views import layers

torch.manual_seed(0)
words = ["the", "keys", "to", "the", "cabinet", "are", "on", "the", "table"]
n = len(words)
mixed, so_far = torch.eye(n), []
for _ in range(6):
    p = regard.attend(2 * torch.randn(n, 16), torch.randn(n, 16), map="sparsemax").weights
    mixed = (0.5 * p + 0.5 * torch.eye(n)) @ mixed
    so_far.append(mixed)
weights = torch.stack(so_far)  # (layers, m, n)

chosen = [1, 5]  # "keys" and "are"
print(f'of "are" itself, {weights[-1, 5, 5]:.0%} is left after six layers')
print(layers(weights[:, chosen], words, [words[i] for i in chosen]).save("over_layers.png"))

# Now change 0.5 and 0.5 to 0.9 and 0.1: how many layers does a word survive without its residual?
