"""Do the heads of one layer look at different things? Every head of a small translator, all on one scale.

The translator of `make demo` has two layers of four heads that attend to the source. Saved as all_heads.html,
the same view enlarges the head one clicks.
"""

import regard
from regard.inspection import inspect
from regard.views import heads

system = regard.load("runs/demo")  # of make demo
found = inspect(system, "the film begins on Friday at noon")
print(f"{' '.join(found.source)} → {found.said}")

for number, layer in enumerate(found.weights, 1):  # (heads, m, n) of each layer
    entropy = -(layer * layer.clamp(min=1e-9).log()).sum(-1).mean(-1)
    spread = ", ".join(f"{float(e.exp()):.1f}" for e in entropy)
    print(f"layer {number}: its heads spread over {spread} words")
print(heads(found.weights, found.source, found.rows, title="runs/demo").save("all_heads.png"))

# Now change the text to "the film begins on Friday": which heads stay as they were?
