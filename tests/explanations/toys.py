"""Models and weights to be explained, small enough to work out."""

import torch
from torch import nn

from regard import Attention, MultiHead
from regard.masks import Causal, Lengths
from regard.models.classifiers import CLASSIFIERS
from regard.models.subject import real

VOCABULARY, MASK = 11, 1
SIZES = dict(vocabulary=VOCABULARY, classes=3, embedding=8, dropout=0.2, word_dropout=0.1)
OWN = {
    "transformer_encoder": dict(inner=8, heads=2, layers=2),
    "hierarchical": dict(width=8, ends=(3,)),
    "self_attentive": dict(width=8, compared=4, rows=2, inner=4),
    "attentive_bilstm": dict(width=8),
}


def classifier(name, **settings):
    """A classifier of this kind with random weights, float64, in training mode."""
    torch.manual_seed(0)
    return CLASSIFIERS[name].make(**{**SIZES, **OWN.get(name, {}), **settings}).double()


def texts():
    """Tokens (4, 6) and lengths, one text of full length."""
    tokens = torch.randint(2, VOCABULARY, (4, 6), generator=torch.Generator().manual_seed(1))
    return tokens, torch.tensor([6, 2, 4, 5])


def random_weights(*shape, scale=1.0, seed=0):
    """Weights (..., n) that sum to 1."""
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (scores * scale).softmax(-1)


class Linear(nn.Module):
    """logits = Σⱼ W xⱼ: what a word adds does not depend on the others."""

    def __init__(self, classes=2):
        super().__init__()
        torch.manual_seed(0)
        self.E = nn.Embedding(VOCABULARY, 5).double()
        self.W = nn.Linear(5, classes).double()

    def embed(self, tokens):
        return self.E(tokens)

    def from_embedded(self, embedded, lengths):
        there = real(lengths, embedded.shape[1]).unsqueeze(-1)
        return self.W(torch.where(there, embedded, 0).sum(1))

    def forward(self, tokens, lengths):
        return self.from_embedded(self.embed(tokens), lengths)


class TwoLayers(nn.Module):
    """Self-attention twice and a look over the places: no names for its attentions, no embed."""

    def __init__(self, causal=False):
        super().__init__()
        torch.manual_seed(0)
        self.causal, self.E = causal, nn.Embedding(VOCABULARY, 8)
        self.first, self.second = MultiHead(8, 2), MultiHead(8, 2)
        self.read = nn.Linear(8, 2)
        self.double()

    def forward(self, tokens, lengths):
        x, mask = self.E(tokens), Lengths(lengths) & Causal() if self.causal else Lengths(lengths)
        x = x + self.first(x, mask=mask).context
        x = x + self.second(x, mask=mask).context
        return self.read(x[:, 0])


class Look(nn.Module):
    """One attention whose values are the words' vectors, and a linear layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.E = nn.Embedding(VOCABULARY, 5)
        self.query = nn.Parameter(torch.randn(1, 5))
        self.attention = Attention()
        self.read = nn.Linear(5, 2)
        self.attention_paths = {"reader": ["attention"]}
        self.double()

    def embed(self, tokens):
        return self.E(tokens)

    def from_embedded(self, embedded, lengths):
        query = self.query.expand(len(embedded), 1, -1)
        return self.read(self.attention(query, embedded, mask=Lengths(lengths)).context[:, 0])

    def forward(self, tokens, lengths):
        return self.from_embedded(self.embed(tokens), lengths)


def log_odds(logits, target):
    """log p/(1 − p) of a class, by the probabilities."""
    p = logits.softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return p.log() - (1 - p).log()
