"""Where do the words of a sentence go when it is translated? Lines from each source word to its target words.

A line is as broad as the weight. Under sparsemax most weights are exactly 0 and have no line, so what is left
can be followed with a finger.
"""

import torch

import regard
from regard.views import lines

torch.manual_seed(1)
source = ["yesterday", "I", "gave", "the", "book", "back", "to", "her"]
target = ["gestern", "habe", "ich", "ihr", "das", "Buch", "zurückgegeben"]
means = [0, 2, 1, 7, 3, 4, 5]  # the source word that each target word stands for
keys = torch.randn(len(source), 32)
query = keys[means] + 0.8 * torch.randn(len(target), 32)

weights = {name: regard.attend(query, keys, map=name).weights for name in ("softmax", "sparsemax")}
for name, p in weights.items():
    print(f"{name} draws {int((p > 0).sum())} lines of {p.numel()}")
print(lines(weights, source, target).save("alignment_lines.png"))

# Now change 0.8 to 2: which lines go astray first?
