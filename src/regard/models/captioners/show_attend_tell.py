"""Show, Attend and Tell: before each word of its caption the decoder attends to the cells of the picture.

    a = convolutions(x) + e        h_0 = MLP_h(ā), c_0 = MLP_c(ā)        ā: the mean of the annotations
    ẑ_t = β_t Attention(h_{t−1}, a),   β_t = σ(W_β h_{t−1})
    h_t, c_t = LSTM([Ey_{t−1}; ẑ_t], h_{t−1}, c_{t−1})
    p(y_t | y_{<t}, x) = softmax(L_o (Ey_{t−1} + L_h h_t + L_z ẑ_t))

It is a sequence-to-sequence model whose memory is a grid. With map="hard" one cell is chosen at each step,
with any estimator of `regard.maps.estimators`: drawn in training, the best one afterwards. With read="mean"
every step sees the mean of all cells: no attention, the control. `penalty` is the weight λ of the doubly
stochastic penalty, which is off for hard attention.

Xu et al. (2015), "Show, Attend and Tell", arXiv:1502.03044, §3.1, §4. (The lecture applies σ to all four
parts of the LSTM; the candidate ĉ has tanh. It leaves out β_t.)
Departs from the paper: a small network trained with the rest, e (learned vectors of the cells) added to its
annotations; MLPs of one layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, concat_steps
from regard.core.place import Place
from regard.losses import doubly_stochastic_penalty, expected_loss
from regard.maps import Hard, estimators, softmax
from regard.models.entries import register_captioner
from regard.models.images.image_model import ImageModel, PictureTextConfig
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import check_choice, make_map, make_score, precompute_keys
from regard.models.sequence_model import Rows, SequenceModel, by_hypothesis, by_sentence
from regard.recording import record

ESTIMATORS: dict[str, Callable[[], estimators.Estimator]] = {
    "straight_through": lambda: estimators.StraightThrough(softmax),
    "reinforce": lambda: estimators.Reinforce(entropy=0.01),
    "reinforce_swap": lambda: estimators.Reinforce(entropy=0.01, swap=0.5),
    "gumbel": lambda: estimators.GumbelSoftmax(0.5),
    "gumbel_hard": lambda: estimators.GumbelSoftmax(0.5, hard=True),
    "perturb_and_map": lambda: estimators.PerturbAndMap(),
    "spigot": lambda: estimators.Spigot(),
    "exact": lambda: estimators.Exact(),
}
Estimator = Literal[
    "straight_through", "reinforce", "reinforce_swap", "gumbel", "gumbel_hard", "perturb_and_map", "spigot",
    "exact",
]  # fmt: skip


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """Configuration: `classes` is the size of the vocabulary."""

    dropout: float = 0.0
    score: str = "additive"
    map: str = "softmax"
    learn_alpha: bool = False
    estimator: Estimator = "reinforce_swap"  # with map="hard"
    read: Literal["attention", "mean"] = "attention"
    penalty: float = 0.0  # λ of the doubly stochastic penalty


@dataclass(frozen=True, eq=False)
class Memory(Rows):
    """The annotations, as keys and as values, and their mean."""

    keys: Tensor  # (b, n, d)
    values: Tensor  # (b, n, width)
    mean: Tensor  # (b, width)


@dataclass(frozen=True, eq=False)
class State(Rows):
    """Hidden state and cell of the LSTM, (r, state) each."""

    h: Tensor
    c: Tensor


@register_captioner(Config)
class ShowAttendTell(SequenceModel[Memory, State]):
    """Convolutions, and an LSTM that attends to their cells before each word."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, state, words = config, config.state, config.embedding
        self.pixels = ImageModel(config)  # normalises
        self.convolutions = config.convolutions()
        self.grid, width = self.convolutions.grid, self.convolutions.width
        self.places = nn.Parameter(torch.randn(self.grid[0] * self.grid[1], width) * 0.3)
        self.begin_h, self.begin_c = nn.Linear(width, state), nn.Linear(width, state)
        self.embed = nn.Embedding(config.classes, words)
        self.gate = nn.Linear(state, 1)
        self.decoder = nn.LSTMCell(words + width, state)
        self.L_h, self.L_z = nn.Linear(state, words), nn.Linear(width, words)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(words, config.classes)
        self.attends = check_choice("read", config.read, ("attention", "mean")) == "attention"
        if self.attends:
            hard = config.map == "hard"
            check_choice("estimator", config.estimator, tuple(ESTIMATORS))
            map = (
                Hard(ESTIMATORS[config.estimator]())
                if hard
                else make_map(config.map, learn_alpha=config.learn_alpha, grid=self.grid)
            )
            self.attention = Attention(make_score(config.score, state, width), map)
            self.attention_paths = {"cross": ["attention"]}

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """Bytes (b, c, h, w) to the memory; `lengths` are not needed."""
        return self.encode_normalised(self.pixels.normalise(source))

    def encode_normalised(self, x: Tensor) -> Memory:
        """Normalised pictures (b, c, h, w) to the memory."""
        values = self.convolutions.annotations(x) + self.places
        keys = precompute_keys(self.attention.score, values) if self.attends else values
        return Memory(keys, values, values.mean(-2))

    def start(self, memory: Memory) -> State:
        return State(torch.tanh(self.begin_h(memory.mean)), torch.tanh(self.begin_c(memory.mean)))

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        return self._step(self.embed(tokens), state, memory)

    def forward(self, source: Tensor, source_lengths: Tensor | None, target_in: Tensor) -> Tensor:
        memory = self.encode(source, source_lengths)
        state, words = self.start(memory), self.embed(target_in)  # (b, m, embedding)
        steps = []
        for word in words.unbind(1):
            hidden, state = self._step(word, state, memory)
            steps.append(hidden)
        return torch.stack(steps, 1)

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias

    def caption_loss(
        self, source: Tensor, target_in: Tensor, target: Tensor, real: Tensor, smoothing: float
    ) -> Tensor:
        """The loss of captions (b, m) to minimise, summed over the real words, with what draws and λ need."""

        def losses() -> Tensor:  # (b,), per caption
            hidden = self(source, None, target_in)
            logits = F.linear(hidden, *self.vocabulary()).float()
            each = F.cross_entropy(
                logits.flatten(0, 1), target.flatten(), reduction="none", label_smoothing=smoothing
            )
            return (each.view_as(target) * real).sum(-1)

        if not self.attends or not self.config.penalty or self.config.map == "hard":
            exact = self.attends and self.config.map == "hard" and self.config.estimator == "exact"
            whole = expected_loss(losses if exact and self.training else losses())
            return whole * len(source)
        with record(self, "attention", grad=True) as seen:
            each = losses()
        weights = concat_steps(seen["attention"]).weights  # (b, m, n)
        more = doubly_stochastic_penalty(
            weights, self.config.penalty, mask=real.unsqueeze(-1), reduction="sum"
        )
        return each.sum() + more

    def _step(self, y: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Embedded token y (r, embedding) to hidden (r, embedding), and the next state."""
        if self.attends:
            query = by_sentence(state.h.unsqueeze(-2), len(memory.mean))
            place = Place.on_grid(query.shape[-2], self.grid, y.device)
            seen = self.attention(query, memory.keys, memory.values, place=place)
            z = by_hypothesis(seen.context, len(y)).squeeze(-2)
        else:
            z = by_hypothesis(memory.mean, len(y))
        z = torch.sigmoid(self.gate(state.h)) * z
        h, c = self.decoder(torch.cat([y, z], -1), (state.h, state.c))
        hidden: Tensor = self.dropout(y + self.L_h(h) + self.L_z(z))
        return hidden, State(h, c)
