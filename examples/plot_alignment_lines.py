"""Where do the words of a sentence go when it is translated? Lines from each source word to its target words.

The translator of `make demo`, both layers that attend to the source, the mean of their heads. A line is as
broad as the weight. Nobody showed it which word stands for which: it learned to look there in order to
translate.
"""

import regard
from regard.inspection import inspect
from regard.views import lines

system = regard.load("runs/demo")  # of make demo
found = inspect(system, "the train leaves on the third of March at half past three")
print(f"{' '.join(found.source)}\n→ {found.said}")

weights = {f"layer {k + 1}": found.matrix(layer=k) for k in range(len(found.weights))}
for name, p in weights.items():
    strong = int((p > 0.5).sum())
    print(f"{name}: {strong} of {len(found.rows)} words have more than half of their weight on one word")
print(lines(weights, found.source, found.rows).save("alignment_lines.png"))

# Now change the text to "every Monday the bus arrives at noon": which lines cross?
