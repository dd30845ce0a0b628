"""A model small enough to enumerate: what comes next depends on the source and the last two tokens."""

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from regard.core.tokens import BOS, EOS


@dataclass
class Held:
    tensor: Tensor

    def select(self, index):
        return Held(self.tensor[index])


class Table:
    """Tokens 0–3 are the special ones; `letters` more."""

    def __init__(self, letters=3, sources=4, seed=0, sharp=2.0):
        g = torch.Generator().manual_seed(seed)
        self.v = 4 + letters
        self.table = sharp * torch.randn(sources, self.v, self.v, self.v, generator=g, dtype=torch.float64)

    def encode(self, source, lengths):
        return Held(source[:, 0])

    def start(self, memory):
        return Held(torch.full_like(memory.tensor, BOS))

    def step(self, tokens, state, memory):
        source = memory.tensor.repeat_interleave(len(tokens) // max(len(memory.tensor), 1))
        return self.table[source, state.tensor, tokens], Held(tokens)

    def logits(self, hidden):
        return hidden

    def log_prob(self, source, target):
        """Of a target and the EOS after it, by definition; padding and beginnings cannot be written."""
        total, before, last = 0.0, BOS, BOS
        for token in [*target, EOS]:
            logits = self.table[source, before, last].clone()
            logits[[0, 1]] = -torch.inf
            total += logits.log_softmax(-1)[token].item()
            before, last = last, token
        return total

    def all(self, longest):
        """Every target that with its EOS is not longer than this."""
        letters = [t for t in range(2, self.v) if t != EOS]
        for length in range(longest):
            yield from map(list, product(letters, repeat=length))
