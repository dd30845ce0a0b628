"""Which words of a review did a classifier look at? The text itself, each word on the colour of its weight.

One learned query looks over the words, as in the attentive classifiers of the debate. The query here asks for
words of feeling; the bar under a word is as long as its weight, for those who do not see the colour.
"""

import torch

import regard
from regard.views import words

torch.manual_seed(0)
review = "I did not expect much , but the acting is superb and the end moved me ; the music is dreadful ."
text = review.split()
feeling = torch.randn(32)
strength = {"superb": 0.8, "moved": 0.7, "dreadful": 0.75, "expect": 0.4, "not": 0.5}
keys = torch.stack([strength.get(word, 0.0) * feeling + 0.7 * torch.randn(32) for word in text])

weights = {
    name: regard.attend(feeling[None], keys, map=name).weights
    for name in ("softmax", "entmax15", "sparsemax")
}
for name, p in weights.items():
    print(f"{name}: {int((p > 0).sum())} of {len(text)} words have weight")
print(words(weights, text).save("words_by_weight.png"))

# Now change 0.7 to 1.5: which map is the first to look at a comma?
