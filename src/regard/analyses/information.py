"""Information about labels in hidden states, and how much of it the word alone does not have.

    I(T; R) = H(T) − H(T | R)                       what the states R say about the labels T, in bits per word
    G(T, R) = H(T | c(R)) − H(T | R)                the gain: what they say beyond the control function c

c(R) replaces the state of a word by a vector of its type, the same in every sentence: here the mean of layer
0 over its occurrences. A state is a function of the sentence, so no layer has more information than the words
themselves; what is measured is how much of it a probe can get at, and the gain is what is due to context.

H(T) is the entropy of the labels; the others are estimated from above by the cross-entropy of a probe on
words it was not trained on, so that I may come out too low, and G either way.

Pimentel et al. (2020), "Information-Theoretic Probing for Linguistic Structure", arXiv:2004.03061, §2–3.
Departs from the paper: one size of probe, with early stopping, instead of a search over many; types have the
vectors of the model's own layer 0 instead of fastText's.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.analyses.codelength import FEWEST, HIDDEN, checked, standardised, trained_probe
from regard.analyses.probing import Listener, ProbingData

HELD_OUT = 0.2  # of the words


@dataclass(frozen=True)
class Information:
    """Bits per word about the labels, in the states of one layer."""

    layer: int
    entropy: float  # H(T)
    given_states: float  # H(T | R)
    given_type: float  # H(T | c(R))

    @property
    def mutual(self) -> float:
        """I(T; R)."""
        return self.entropy - self.given_states

    @property
    def gain(self) -> float:
        """G(T, R): what the states say beyond the type of the word."""
        return self.given_type - self.given_states


def type_vectors(states: Tensor, words: Sequence[Hashable]) -> Tensor:
    """The mean state of each word's type: (N, d), of states (N, d) and words (N,)."""
    number = {word: k for k, word in enumerate(dict.fromkeys(words))}
    types = torch.tensor([number[word] for word in words])
    total = torch.zeros(len(number), states.shape[-1], dtype=torch.float64).index_add(
        0, types, states.double()
    )
    counts = torch.bincount(types, minlength=len(number)).unsqueeze(-1)
    return (total / counts)[types].float()


def conditional_entropy(
    states: Tensor, labels: Tensor, classes: int, *, hidden: int = HIDDEN, seed: int = 0
) -> float:
    """H(T | R) in bits per label: the cross-entropy of a probe on a fifth of labels (N,), states (N, d)."""
    states, labels = checked(states, labels, classes)
    chance, held = torch.Generator().manual_seed(seed), math.ceil(HELD_OUT * len(labels))
    if len(labels) - held < FEWEST:
        raise ValueError(f"a probe needs at least {FEWEST} labels to learn from; got {len(labels) - held}.")
    order = torch.randperm(len(labels), generator=chance)
    states, labels = standardised(states)[order], labels[order]
    probe = trained_probe(states[held:], labels[held:], classes, hidden, chance)
    with torch.no_grad():
        logits = probe(states[:held]).double()
    return float(F.cross_entropy(logits, labels[:held])) / math.log(2)


def information(
    words: ProbingData, *, hidden: int = HIDDEN, seed: int = 0, listen: Listener | None = None
) -> Iterator[Information]:
    """The information about the labels in each layer from 0 on."""
    classes = len(words.names)
    shares = torch.bincount(words.labels, minlength=classes) / len(words.labels)
    entropy = float(torch.special.entr(shares.double()).sum()) / math.log(2)

    def about(states: Tensor) -> float:
        return conditional_entropy(states, words.labels, classes, hidden=hidden, seed=seed)

    by_type = about(type_vectors(words.states[0], words.words))
    for layer, states in enumerate(words.states):
        if listen is not None:
            listen(layer, 0.5)
        yield Information(layer, entropy, about(states), by_type)
