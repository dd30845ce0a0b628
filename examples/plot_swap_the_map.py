"""What does a trained head look at, and what does it only glance at? Its query and keys under three maps.

A head of the translator that `make demo` trains, with softmax. Softmax gives every pair of words some weight;
under the sparse maps, put in its place without training again, most of the rest is exactly 0 and is not drawn
at all.
"""

import regard
from regard.data.segments import by_word
from regard.inspection import inspect
from regard.views import heat_map

system = regard.load("runs/demo")  # of make demo
found = inspect(system, "the film begins on Friday at noon")
attended = found.answer.attended[system.layers[0]]  # the first layer's attention to the source
target = system.answer_segments(found.answer)

weights = {}
for name in ("softmax", "entmax15", "sparsemax"):
    p = regard.attend(attended.query[0], attended.keys[0], map=name).weights[0]  # of the first head
    weights[name] = by_word(p, found.read.word_of, target.word_of)
    print(
        f"{name} gives weight to {int((weights[name] > 0).sum())} of {weights[name].numel()} pairs of words"
    )
print(heat_map(weights, found.source, found.rows).save("swap_the_map.png"))

# Now change layers[0] to layers[-1]: is less of the weight at the first words?
