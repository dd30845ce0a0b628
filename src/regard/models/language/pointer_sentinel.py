"""The pointer sentinel mixture model: say a word of the vocabulary, or point to one that was just read.

    p = map([q·h_1, …, q·h_t, q·s]),  q = tanh(W h_t + b)       g = the share of the sentinel s
    p(w) = g p_vocabulary(w) + Σ_{i: w_i = w} p_i

One softmax decides how much is pointed and where to: what the pointer does not take, the vocabulary has. A
word that was read several times gets the sum.

Merity et al. (2017), "Pointer Sentinel Mixture Models", arXiv:1609.07843, §2.
Departs from the paper: as `recurrent.py`, whose states it points to.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention
from regard.masks import as_mask
from regard.memories import remember
from regard.models.entries import register_language_model
from regard.models.language.language_model import check_tokens
from regard.models.language.recurrent import Config as RecurrentConfig
from regard.models.language.recurrent import Recurrent

LEAST = 1e-20  # so that the logarithm of a probability is finite


@dataclass(frozen=True)
class Config(RecurrentConfig):
    """Configuration of a pointer sentinel model."""

    layers: int = 1
    memory: int = 100  # tokens that can be pointed to


class Pointed(NamedTuple):
    """What the mixture is made of, at places (..., m)."""

    states: Tensor  # (..., m, width)
    weights: Tensor  # (..., m, n + 1), the sentinel last
    read: Tensor  # (..., m, n): the words pointed to

    def flatten(self, first: int, last: int) -> "Pointed":
        """The same with these axes as one."""
        return Pointed(*(part.flatten(first, last) for part in self))


@register_language_model(Config)
class PointerSentinel(Recurrent):
    """A recurrent network that points to words it has read; its hidden states are log-probabilities.

    In training they are a `Pointed`: the loss needs the probability of one word at each place, not of all.
    """

    def __init__(self, config: Config):
        super().__init__(config)
        self.query = nn.Linear(config.width, config.width)
        nn.init.xavier_uniform_(self.query.weight)
        self.sentinel = nn.Parameter(torch.randn(config.width) * config.width**-0.5)
        self.pointer = Attention("dot")
        self.attention_paths = {"pointer": ["pointer"]}

    def forward(
        self, tokens: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[Any, dict[str, Tensor]]:
        """Log-probabilities (b, n, vocabulary) after tokens (b, n), in the place of hidden states."""
        check_tokens(tokens)
        memory, earlier, read = cast(Config, self.config).memory, None, tokens
        cells = None
        if state is not None:
            earlier, read = state["states"][0], torch.cat([state["tokens"][0], tokens], 1)
            cells = {name: state[name] for name in state if name in ("h", "c")}
        states, after = self.from_embedded(self.embed(tokens), cells)
        every = states if earlier is None else torch.cat([earlier, states], 1)  # (b, n, width)
        p = self._weights(states, every, memory)  # (b, m, n + 1), the sentinel last
        after["states"] = remember(earlier, states, memory)[0].unsqueeze(0)
        after["tokens"] = read[:, -after["states"].shape[-2] :].unsqueeze(0)
        if self.training:
            return Pointed(states, p, read.unsqueeze(1).expand(-1, p.shape[1], -1)), after
        share = p[..., -1:].clamp(min=LEAST)
        said = F.linear(states, *self.vocabulary()).log_softmax(-1) + share.log()
        index = read.unsqueeze(1).expand(-1, p.shape[1], -1)
        pointed = torch.zeros_like(said).scatter_add(-1, index, p[..., :-1])
        return torch.logaddexp(said, pointed.clamp(min=LEAST).log()), after

    def _weights(self, states: Tensor, every: Tensor, memory: int) -> Tensor:
        m, n = states.shape[1], every.shape[1]
        keys = torch.cat([every, self.sentinel.expand(len(every), 1, -1)], 1)
        i, j = torch.arange(n - m, n, device=keys.device).unsqueeze(-1), torch.arange(n, device=keys.device)
        near = F.pad((j <= i) & (i - j < memory), (0, 1), value=True)  # the sentinel is always there
        weights: Tensor = self.pointer(torch.tanh(self.query(states)), keys, mask=as_mask(near)).weights
        return weights

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def loss(self, hidden: "Tensor | Pointed", wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        if isinstance(hidden, Tensor):
            return F.nll_loss(hidden, wanted, reduction="sum")
        said = -F.cross_entropy(F.linear(hidden.states, *self.vocabulary()), wanted, reduction="none")
        said = said + hidden.weights[..., -1].clamp(min=LEAST).log()
        same = hidden.read == wanted.unsqueeze(-1)
        pointed = (hidden.weights[..., :-1] * same).sum(-1).clamp(min=LEAST).log()
        return -torch.logaddexp(said, pointed).sum()
