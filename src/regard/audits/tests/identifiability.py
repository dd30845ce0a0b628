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
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.register import register
from regard.models.token_identity import identified, linear_map
from regard.tasks.case import Case, NotApplicable


@register(None)
def identifiability(case: Case, *, seed: int = 0) -> Finding:
    """Find the word of each hidden state."""
    if case.states is None:
        raise NotApplicable("the hidden states that attention is over were not given")
    rows = case.longer
    if len(rows) < 2:
        raise NotApplicable("one half of the texts is needed to fit a map, and there is only one text")
    order = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))].tolist()
    halves = [order[::2], order[1::2]]
    read = [_read(case, half) for half in halves]
    shares, chances = [], []
    for half, (states, vectors, lengths), (others, their_vectors, their_lengths) in zip(
        halves, read, read[::-1], strict=True
    ):
        g = linear_map(others, their_vectors, their_lengths)
        shares.append(identified(states, vectors, lengths, g=g).sum(-1) / lengths)
        chances += [sum(text.count(t) for t in text) / len(text) ** 2 for text in _texts(case, half)]
    found = torch.cat(shares)
    return Finding(
        float(found.mean()),
        sum(chances) / len(chances),
        bootstrap(found, seed=seed),
        len(found),
        "share of hidden states from which a linear map finds their word in the text; baseline: by chance",
    )


def _read(case: Case, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states and vectors (b, n, d), and lengths (b,), of these texts."""
    assert case.states is not None
    at = torch.tensor(rows)
    states, vectors = case.states(_texts(case, rows), at)
    return states.double(), vectors.double(), case.lengths[at]


def _texts(case: Case, rows: list[int]) -> list[list[object]]:
    return [list(case.texts[i]) for i in rows]
