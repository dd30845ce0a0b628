"""A recurrent language model that attends to its own earlier states.

    h_t = LSTM(h_{t−1}, E w_t)     z_t = Σ_{i<t} p_i h_i,  p = map(score(h_t, h_i))
    logits = W tanh(U [z_t; h_t])

The query is the state of the moment, the keys are the states strictly before it: at the first token there are
none, and the context is 0.

Daniluk et al. (2017), "Frustratingly Short Attention Spans in Neural Language Modeling", arXiv:1702.04521,
§3.1. Departs from the paper: any score, scaled dot by default; the last `memory` states are kept, not a fixed
window.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.masks import Lengths, as_mask
from regard.memories import remember
from regard.models.entries import register_language_model
from regard.models.language.recurrent import Config as RecurrentConfig
from regard.models.language.recurrent import Recurrent
from regard.models.parts.named_components import AttentionConfig, make_map


@dataclass(frozen=True)
class Config(AttentionConfig, RecurrentConfig):
    """Configuration of a recurrent language model with attention."""

    layers: int = 1
    score: str = "scaled_dot"
    memory: int = 128  # earlier states that can be attended to


@register_language_model(Config)
class AttentiveRNN(Recurrent):
    """A recurrent network that attends to its earlier states."""

    def __init__(self, config: Config):
        super().__init__(config)
        width = config.width
        self.attention = Attention(
            resolve_score(config.score, width, width), make_map(config.map, learn_alpha=config.learn_alpha)
        )
        self.joined = nn.Linear(2 * width, width)
        nn.init.xavier_uniform_(self.joined.weight)
        self.attention_paths = {"self": ["attention"]}

    def from_embedded(
        self, embedded: Tensor, state: dict[str, Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        memory = cast(Config, self.config).memory
        earlier = None if state is None else state["states"][0]
        cells = None if state is None else {name: one for name, one in state.items() if name != "states"}
        states, after = super().from_embedded(embedded, cells)  # (b, m, width)
        every = states if earlier is None else torch.cat([earlier, states], -2)
        m, n = states.shape[1], every.shape[1]
        i, j = (
            torch.arange(n - m, n, device=states.device).unsqueeze(-1),
            torch.arange(n, device=states.device),
        )
        mask = as_mask((j < i) & (i - j <= memory))  # strictly before
        mask = mask if lengths is None else mask & Lengths(lengths + n - m)
        context = self.attention(states, every, mask=mask).context
        hidden = torch.tanh(self.joined(torch.cat([context, states], -1)))
        after["states"] = remember(earlier, states, memory)[0].unsqueeze(0)
        return self.dropout(hidden), after
