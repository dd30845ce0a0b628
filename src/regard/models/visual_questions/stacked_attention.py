"""Stacked attention: a question looks at a picture, and with what it saw looks again.

    a = convolutions(x) + e        q = GRU(question)        z_1 = Attention(q, a)
    z_2 = Attention(q + W z_1, a)        ŷ = W_o tanh(W_z z_2 + W_q (q + W z_1))

The first look can find what the question names, the second what stands beside it. The attention is discrete
(any row map over the cells), or a density over the plane of the picture, a Gaussian (continuous_softmax) or a
truncated paraboloid (continuous_sparsemax), whose context is the expected value of a fitted function.

Yang et al. (2016), "Stacked Attention Networks for Image Question Answering", arXiv:1511.02274, §3; Martins
et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214, §5, for the densities.
Departs from the papers: a small network trained with the rest, e (learned vectors of the cells) added to its
annotations.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.continuous import Density
from regard.core.place import Place
from regard.maps.continuous import Continuous
from regard.models.entries import register_question_model
from regard.models.images.image_model import ConvolutionConfig, ImageModel, Recorded
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import check_choice, make_map

Kind = Literal["discrete", "continuous_softmax", "continuous_sparsemax"]


@dataclass(frozen=True)
class Config(ConvolutionConfig):
    """Configuration: `vocabulary` is that of the questions, `looks` how often it looks."""

    vocabulary: int = 8
    blocks: tuple[int, ...] = (1, 1)
    embedding: int = 64
    state: int = 128
    looks: int = 2
    attention: Kind = "discrete"
    score: str = "additive"
    map: str = "softmax"  # of discrete attention
    learn_alpha: bool = False
    dropout: float = 0.0


@register_question_model(Config)
class StackedAttention(ImageModel):
    """Convolutions, a GRU over the question, several looks at the cells, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.convolutions = config.convolutions()
        self.grid, width, state = self.convolutions.grid, self.convolutions.width, config.state
        self.places = nn.Parameter(torch.randn(self.grid[0] * self.grid[1], width) * 0.3)
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        self.question = nn.GRU(config.embedding, state, batch_first=True)
        kind = check_choice("attention", config.attention, get_args(Kind))
        name = config.map if kind == "discrete" else kind
        self.looks = nn.ModuleList(
            Attention(
                resolve_score(config.score, state, width),
                make_map(name, learn_alpha=config.learn_alpha, grid=self.grid),
            )
            for _ in range(config.looks)
        )
        self.seen = nn.ModuleList(nn.Linear(width, state) for _ in range(config.looks))
        self.W_q = nn.Linear(state, state)
        self.dropout = Dropout(config.dropout)
        self.read = nn.Linear(state, config.classes)
        self.attention_paths = {"reader": [f"looks.{k}" for k in range(config.looks)]}

    def asked(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The state (b, state) after the last word of questions (b, m)."""
        states, _ = self.question(self.words(tokens))
        last: Tensor = states[torch.arange(len(tokens), device=tokens.device), lengths - 1]
        return last

    def from_normalised(self, x: Tensor, *more: Tensor) -> Tensor:
        return self.from_annotations(self.annotations(x), *more)

    def annotations(self, x: Tensor) -> Tensor:
        """Normalised pictures to the cells (b, n, width)."""
        return self.convolutions.annotations(x) + self.places

    def from_annotations(self, h: Tensor, *more: Tensor) -> Tensor:
        """Cells (b, n, width), and tokens and lengths of questions, to logits (b, classes)."""
        tokens, lengths = more
        q = self.asked(tokens, lengths)
        place = Place.on_grid(1, self.grid, h.device)
        seen = q
        for look, take in zip(self.looks, self.seen, strict=True):
            q = seen
            z = look(q.unsqueeze(-2), h, h, place=place).context[:, 0]
            seen = q + take(z)
        logits: Tensor = self.read(self.dropout(torch.tanh(seen - q + self.W_q(q))))
        return logits

    def forward(self, pixels: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        """Bytes (b, c, h, w) and questions (b, m) to logits (b, classes)."""
        return self.from_normalised(self.normalise(pixels), tokens, lengths)

    def densities(self, seen: Recorded) -> list[Density]:
        """The densities of all looks that were recorded, if the attention is continuous; else none."""
        found = []
        for look, path in zip(self.looks, self.attention_paths["reader"], strict=True):
            assert isinstance(look, Attention)
            if isinstance(look.map, Continuous):
                found.append(look.map.density(seen[path][-1].scores.squeeze(-2)))
        return found
