"""Identifiability: can the word still be told from the hidden state that gets the weight?

    value = share of hidden states that, after a linear map, are nearest to the vector of their own word
            among those of the text
    baseline = by chance: 1/n, more for a word that occurs twice

The map is fitted by least squares on one half of the texts and applied to the other, both ways. Weight on a
state whose word cannot be told is not weight on the word. That it can be told does not mean that the state
encodes nothing else.

Brunner et al. (2020), "On Identifiability in Transformers", arXiv:1908.04211, §4.
"""

import torch

from regard.audits.register import Finding, register
from regard.models.token_identity import identified, linear_map
from regard.tasks.case import Case, NotApplicable


@register(None)
def identifiability(case: Case, *, seed: int = 0) -> Finding:
    """Find the word of each hidden state."""
    states_of, rows = case.states_and_vectors, case.longer
    if len(rows) < 2:
        raise NotApplicable("one half of the texts is needed to fit a map, and there is only one text")
    order = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))].tolist()
    halves, chances = [], []
    for half in (order[::2], order[1::2]):
        texts, at = [list(case.texts[i]) for i in half], torch.tensor(half)
        states, vectors = (x.double() for x in states_of(texts, at))  # (b, n, d) each
        halves.append((states, vectors, case.lengths[at]))
        chances += [sum(text.count(t) for t in text) / len(text) ** 2 for text in texts]
    shares = [
        identified(*here, g=linear_map(*there)).sum(-1) / here[2]
        for here, there in zip(halves, halves[::-1], strict=True)
    ]
    says = "share of hidden states from which a linear map finds their word in the text; baseline: by chance"
    return Finding.of(torch.cat(shares), sum(chances) / len(chances), says, seed)
