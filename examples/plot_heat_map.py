"""Which source words did each target word look at? A heat map as in the lectures: 0 is black, 1 is white.

The translator that `make demo` trains, on a sentence of one's own: its last layer, the mean of the heads.
"leaves" becomes two words, "fährt" and "ab", with the rest of the German sentence between them.
"""

import regard
from regard.inspection import inspect
from regard.views import heat_map

system = regard.load("runs/demo")  # of make demo
found = inspect(system, "the train leaves on the third of March at half past three")
print(f"{' '.join(found.source)}\n→ {found.said}")

weights = found.matrix(layer=-1)  # (m, n), between words, the mean of the heads
for word, row in zip(found.rows, weights, strict=True):
    print(f"{word:>8} looked most at {found.source[int(row.argmax())]}")
print(f"every row sums to 1: {weights.sum(-1).round(decimals=3).unique().tolist()}")

view = heat_map(weights, found.source, found.rows, ramp="black_to_white", title="runs/demo, last layer")
print(view.save("heat_map.png"))

# Now change ramp to "even": can you tell a weight of 0.01 from one of 0?
