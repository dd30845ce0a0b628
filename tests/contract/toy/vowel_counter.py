"""A toy model, one file: how many vowels a text has, from one attention over its characters.

ŷ = n · (w · Attention(q, E x))        n characters, one learned query q
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.core.registry import Table
from regard.masks import Lengths
from regard.models.entries import registrar
from regard.models.parts.named_components import make_map

VOWEL_COUNTERS = Table("vowel counter", {})


@dataclass(frozen=True)
class Config:
    vocabulary: int
    width: int = 8
    score: str = "additive"
    map: str = "softmax"
    learn_alpha: bool = False


@registrar(VOWEL_COUNTERS)(Config)
class VowelCounter(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config, width = config, config.width
        self.embed = nn.Embedding(config.vocabulary, width)
        self.query = nn.Parameter(torch.zeros(1, width))
        self.attention = Attention(
            resolve_score(config.score, width, width), make_map(config.map, learn_alpha=config.learn_alpha)
        )
        self.output = nn.Linear(width, 1, bias=False)
        self.attention_paths = {"reader": ["attention"]}

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Counts (b,) of tokens (b, n), the first `lengths` (b,) of each row real."""
        query = self.query.expand(len(tokens), 1, -1)
        context = self.attention(query, self.embed(tokens), mask=Lengths(lengths)).context[:, 0]
        return self.output(context).squeeze(-1) * lengths
