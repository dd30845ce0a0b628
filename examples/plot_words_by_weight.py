"""Which words of a review did a classifier look at, and which did it need? Attention and two others.

A BiLSTM with attention, trained on generated reviews (`make images` does it in a minute). Attention is where
it looked, leave-one-out what changes when a word is deleted: they need not name the same words.
"""

import regard
from regard.inspection import inspect, word_scores
from regard.views import words

system = regard.load("runs/sentiment")  # regard train classification --corpus sentiment --out runs/sentiment
found = inspect(system, system.example or "the film was not exquisite")
print(f"{found.title}: {' '.join(found.source)}")

scores = {"attention": found.matrix()}  # (1, n)
for method in ("leave_one_out", "gradient_x_input"):
    p = word_scores(found, method).view(1, -1)
    scores[method] = p / p.abs().sum().clamp(min=1e-9)  # shares, so that methods can be compared
for name, p in scores.items():
    print(f"{name}: most on {found.source[int(p.abs().argmax())]}")
print(words(scores, found.source).save("words_by_weight.png"))

# Now change the text to one of your own: do the three still agree?
