"""What does a decoder look at while it writes each word? "Je suis étudiant", step by step.

Each step is one query against the same three keys. On the left is what has been said so far, on the right
where the last word of it looked.
"""

import torch

import regard
from regard.views import steps

torch.manual_seed(0)
source, target = ["Je", "suis", "étudiant"], ["I", "am", "a", "student", "</s>"]
keys = torch.randn(3, 16)
states = [keys[0], keys[1], 0.5 * (keys[1] + keys[2]), keys[2], torch.zeros(16)]

seen = []
for word, state in zip(target, states, strict=True):
    seen.append(regard.attend(state[None] + 0.1 * torch.randn(1, 16), keys, map="entmax15"))
    shown = ", ".join(f"{s} {p:.2f}" for s, p in zip(source, seen[-1].weights[0].tolist(), strict=True))
    print(f"{word:>8}: {shown}")
print(steps(seen, source, target, title="Je suis étudiant").save("decoding_steps.png"))

# Now change map to "softmax": at the last step there is nothing to look for. What does each map do then?
