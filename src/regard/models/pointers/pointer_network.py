"""The pointer network: attention over the input is the output.

    e = encoder(points)        d_i = decoder(said before i)             u_ij = vᵀ tanh(W₁e_j + W₂d_i)
    p(C_i = j) = softmax_j u_ij,        over the end, a learned key, and all that may still be pointed at

Before it points, the decoder takes a glimpse: d_i attends to the points and adds what it saw (Vinyals, Bengio
& Kudlur 2016, arXiv:1511.06391, §4.2; Bello et al. 2017, arXiv:1611.09940, §3).

Vinyals, Fortunato & Jaitly (2015), "Pointer Networks", arXiv:1506.03134, §2.3. Departs from the paper: the
encoder is by default a set encoder, self-attention without positions, so that the order of the points does
not matter; encoder="lstm" is the paper's. What may not be pointed at again is masked. Coordinates stand
beside the encoded points, so that close ones can be told apart. With decoder="last" the state is made of the
points said last and first and of the mean (Kool et al. 2019, arXiv:1803.08475, §3.2).
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.heads import MultiHead
from regard.masks import Lengths
from regard.models.entries import register_pointer
from regard.models.parts.feed_forward import FeedForward
from regard.models.parts.named_components import check_choice, make_map
from regard.models.parts.padded_lstm import PaddedLSTM
from regard.models.parts.residual import Residual
from regard.models.pointers.pointer_model import PointerConfig, PointerModel, taken_points
from regard.scores import Additive, ScaledDot

TINY = 1e-12


@dataclass(frozen=True)
class Config(PointerConfig):
    """Configuration of a pointer network."""

    width: int = 96
    layers: int = 3  # of the set encoder
    heads: int = 4
    encoder: Literal["set", "lstm"] = "set"
    decoder: Literal["lstm", "last"] = "lstm"  # last: by the points said last and first
    glimpse: bool = True
    dropout: float = 0.0
    map: str = "softmax"
    learn_alpha: bool = False


class SetLayer(nn.Module):
    """Self-attention without positions, and feed-forward."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.attention = MultiHead(width, heads)
        self.feed_forward = FeedForward(width, 2 * width, "gelu_tanh")
        self.around = nn.ModuleList(Residual(width, "pre", dropout) for _ in range(2))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (b, n, width) to (b, n, width)."""
        x = self.around[0](x, lambda x: self.attention(x, mask=Lengths(lengths)).context)
        x = self.around[1](x, self.feed_forward)
        return x


@register_pointer(Config)
class PointerNetwork(PointerModel):
    """Attention over the input is the output: p(C_i = j) = softmax_j vᵀ tanh(W₁e_j + W₂d_i)."""

    config: Config

    def __init__(self, config: Config):
        super().__init__()
        self.config, width = config, config.width
        self.inputs = nn.Linear(config.coordinates, width)
        kind = check_choice("encoder", config.encoder, ("set", "lstm"))
        self.layers = nn.ModuleList(
            SetLayer(width, config.heads, config.dropout)
            for _ in range(config.layers if kind == "set" else 0)
        )
        self.norm = nn.LayerNorm(width) if kind == "set" else None
        self.lstm = PaddedLSTM(width, width, both=True) if kind == "lstm" else None
        size = width + config.coordinates  # of an encoded point
        self.end, self.start = (nn.Parameter(torch.randn(size) * 0.1) for _ in range(2))
        self.remembers = check_choice("decoder", config.decoder, ("lstm", "last")) == "lstm"
        if self.remembers:
            self.initial = nn.Linear(size, 2 * width)
            self.decoder = nn.LSTM(size, width, batch_first=True)
        else:
            self.from_last = nn.Sequential(nn.Linear(3 * size, width), nn.GELU(), nn.Linear(width, width))
        self.look = Attention(ScaledDot()) if config.glimpse else None
        self.look_query, self.look_keys = nn.Linear(width, width), nn.Linear(size, width)
        self.mix = nn.Sequential(nn.Linear(2 * width + size, width), nn.GELU(), nn.Linear(width, width))
        self.pointer = Attention(
            Additive(width, size, width), make_map(config.map, learn_alpha=config.learn_alpha)
        )
        self.attention_paths = {"cross": ["pointer"]}
        if config.glimpse:
            self.attention_paths["glimpse"] = ["look"]
        if kind == "set":
            self.attention_paths["self"] = [f"layers.{i}.attention" for i in range(config.layers)]

    def encode(self, points: Tensor, lengths: Tensor) -> Tensor:
        """The end and the points, encoded: (b, 1 + n, size)."""
        x = self.inputs(points)
        if self.lstm is not None:
            x = self.lstm(x, lengths)
        for layer in self.layers:
            x = layer(x, lengths)
        if self.norm is not None:
            x = self.norm(x)
        x = torch.cat((x, points.to(x.dtype)), -1)
        return torch.cat((self.end.expand(len(x), 1, -1), x), 1)

    def log_probs(self, encoded: Tensor, lengths: Tensor, said: Tensor, allowed: Tensor) -> Tensor:
        inputs = taken_points(encoded, said, self.start)
        if self.remembers:
            states, _ = self.decoder(inputs, self._first(encoded, lengths))
        else:
            first = torch.cat((inputs[:, :1], inputs[:, 1:2].expand(-1, inputs.shape[1] - 1, -1)), 1)
            states = self._from_last(encoded, lengths, inputs, first)
        return self._pointed(encoded, inputs, states, allowed)

    def step(
        self, encoded: Tensor, lengths: Tensor, said: Tensor, state: Any, allowed: Tensor
    ) -> tuple[Tensor, Any]:
        inputs = taken_points(encoded, said.unsqueeze(1), self.start)
        if self.remembers:
            states, state = self.decoder(inputs, self._first(encoded, lengths) if state is None else state)
        else:  # the state is the first point, and before it was said the start
            state = (0, inputs) if state is None else (1, inputs if state[0] == 0 else state[1])
            states = self._from_last(encoded, lengths, inputs, state[1])
        return self._pointed(encoded, inputs, states, allowed.unsqueeze(1)).squeeze(1), state

    def _from_last(self, encoded: Tensor, lengths: Tensor, inputs: Tensor, first: Tensor) -> Tensor:
        """States (b, k, width) of the points said last and first, (b, k, size) each."""
        mean = self._mean(encoded, lengths).unsqueeze(1).expand_as(inputs)
        states: Tensor = self.from_last(torch.cat((inputs, first, mean), -1))
        return states

    def _mean(self, encoded: Tensor, lengths: Tensor) -> Tensor:
        """The mean of the points: (b, size)."""
        real = torch.arange(encoded.shape[1] - 1, device=encoded.device) < lengths.unsqueeze(-1)
        return torch.where(real.unsqueeze(-1), encoded[:, 1:], 0).sum(1) / lengths.clamp(min=1).unsqueeze(-1)

    def _first(self, encoded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's first state: from the mean of the points."""
        hidden, cell = self.initial(self._mean(encoded, lengths)).unsqueeze(0).tanh().chunk(2, -1)
        return hidden.contiguous(), cell.contiguous()

    def _pointed(self, encoded: Tensor, inputs: Tensor, states: Tensor, allowed: Tensor) -> Tensor:
        """Log-probabilities (b, k, 1 + n) in these states (b, k, width)."""
        query = states
        if self.look is not None:
            keys = self.look_keys(encoded)
            query = self.look(self.look_query(states), keys, mask=allowed).context
        query = states + self.mix(torch.cat((states, query, inputs), -1))
        seen = self.pointer(query, encoded, encoded[..., :1], mask=allowed)
        if self.training and self.config.map == "softmax":  # the same as below, without a 0 in the logarithm
            scores: Tensor = seen.scores.masked_fill(~allowed, -torch.inf)
            return scores.log_softmax(-1)
        probabilities: Tensor = seen.weights
        return probabilities.clamp(min=TINY).log().masked_fill(~allowed, -torch.inf)
