"""What changes when only the map is swapped? Softmax and 1.5-entmax on the scores of a trained head.

The first head of the translator of `make demo`. Blue is where entmax looks more, orange where softmax did:
entmax takes from the many small weights and gives to the few large ones.
"""

import regard
from regard.data.segments import by_word
from regard.inspection import inspect
from regard.views import compare

system = regard.load("runs/demo")  # of make demo
found = inspect(system, "the film begins on Friday at noon")
attended = found.answer.attended[system.layers[0]]  # the first layer's attention to the source
words = found.read.word_of, system.answer_segments(found.answer).word_of

softmax, entmax = (
    by_word(regard.attend(attended.query[0], attended.keys[0], map=name).weights[0], *words)
    for name in ("softmax", "entmax15")
)
view = compare(softmax, entmax, found.source, found.rows, names=("softmax", "entmax15"))
print(f"on average {view.distance[0]:.0%} of a row's weight has moved")
print(view.save("two_maps_compared.png"))

# Now change "entmax15" to "sparsemax", in both places: does more of the weight move, or less?
