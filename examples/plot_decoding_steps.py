"""What does a decoder look at while it writes each word? A short sentence, step by step.

The translator of `make demo`. On the left is what has been written so far, on the right the source, each word
on the colour of the weight that it got while the last of these words was written.
"""

import regard
from regard.inspection import inspect
from regard.views import steps

system = regard.load("runs/demo")  # of make demo
found = inspect(system, "the film begins on Friday at noon")
weights = found.matrix(layer=-1)  # (m, n): a row for each word that was written

for word, row in zip(found.rows, weights.tolist(), strict=True):
    shown = ", ".join(f"{s} {p:.2f}" for s, p in zip(found.source, row, strict=True) if p >= 0.1)
    print(f"{word:>8}: {shown}")
print(steps(weights, found.source, found.rows, title="runs/demo, last layer").save("decoding_steps.png"))

# Now change layer to 0: at which steps does the first layer look elsewhere?
