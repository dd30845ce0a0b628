"""Stacked attention: a question looks at a picture, and with what it saw looks again.

    a = convolutions(x) + r + c        q_1 = GRU(question)        z_k = W_k Attention(q_k, a)
    q_{k+1} = q_k + MLP_k([q_k; z_k])        ŷ = W_o tanh(z_K + W_q q_K)

The first look can find what the question names, the second what stands beside it: the MLP sees "left of" and
where the first look went, and can ask for the cells to the left. Rows and columns have vectors of their own,
r and c, so that what is learned of one row is known of the others. The attention is discrete
(any row map over the cells), or a density over the plane of the picture, a Gaussian (continuous_softmax) or a
truncated paraboloid (continuous_sparsemax), whose context is the expected value of a fitted function.

Yang et al. (2016), "Stacked Attention Networks for Image Question Answering", arXiv:1511.02274, §3; Martins
et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214, §5, for the densities.
Departs from the papers: a small network trained with the rest, r and c (learned vectors of rows and columns)
added to its annotations; the next query has an MLP, where Yang et al. have q_{k+1} = q_k + z_k.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.continuous import Density
from regard.core.place import Place
from regard.maps.continuous import Continuous
from regard.models.entries import register_visual_question_model
from regard.models.images.image_model import ImageModel, PictureTextConfig, Recorded
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import check_choice, make_map

Kind = Literal["discrete", "continuous_softmax", "continuous_sparsemax"]


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """Configuration: `vocabulary` is that of the questions, `looks` how often it looks."""

    vocabulary: int = 8
    blocks: tuple[int, ...] = (1, 0)
    embedding: int = 64
    state: int = 128
    looks: int = 2
    attention: Kind = "discrete"
    score: str = "additive"
    map: str = "softmax"  # of discrete attention
    learn_alpha: bool = False
    dropout: float = 0.0


@register_visual_question_model(Config)
class StackedAttention(ImageModel):
    """Convolutions, a GRU over the question, several looks at the cells, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.convolutions = config.convolutions()
        self.grid, width, state = self.convolutions.grid, self.convolutions.width, config.state
        self.rows = nn.Parameter(torch.randn(self.grid[0], 1, width) * 0.3)
        self.columns = nn.Parameter(torch.randn(1, self.grid[1], width) * 0.3)
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
        self.next_query = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * state, state), nn.ReLU(), nn.Linear(state, state))
            for _ in range(config.looks - 1)
        )
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
        return self.convolutions.annotations(x) + (self.rows + self.columns).flatten(0, 1)

    def from_annotations(self, h: Tensor, *more: Tensor) -> Tensor:
        """Cells (b, n, width), and tokens and lengths of questions, to logits (b, classes)."""
        tokens, lengths = more
        q = self.asked(tokens, lengths)
        z = self.seen[0](self.look(0, q, h))
        for k, next_query in enumerate(self.next_query, 1):
            q = q + next_query(torch.cat([q, z], -1))
            z = self.seen[k](self.look(k, q, h))
        logits: Tensor = self.read(self.dropout(torch.tanh(z + self.W_q(q))))
        return logits

    def look(self, k: int, query: Tensor, h: Tensor) -> Tensor:
        """The context (b, width) of look k, by queries (b, state)."""
        place = Place.on_grid(1, self.grid, h.device)
        context: Tensor = self.looks[k](query.unsqueeze(-2), h, h, place=place).context[:, 0]
        return context

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
