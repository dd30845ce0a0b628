"""The Neural Turing Machine: a network that reads and writes a memory by soft addresses.

    h_t = controller(x_t, r_{t−1})
    every head: key, strength, gate, shifts, sharpness from h_t; weights by `memories.turing.address`
    M_t = write(M_{t−1})        r_t = read(M_t)        y_t = W[h_t; r_t]

Graves, Wayne & Danihelka (2014), arXiv:1410.5401, §3. Departs from the paper: the memory begins as a small
constant, which converges where random beginnings do not (Collier & Beel (2018), arXiv:1807.08518); every head
begins at the first location; the controller's outputs are bounded before they become addresses.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention
from regard.memories.turing import Address, address, read, write
from regard.models.algorithm.algorithm_model import AlgorithmModel, Common, Run
from regard.models.entries import register_algorithm_model


@dataclass(frozen=True)
class Config(Common):
    """Configuration of a Turing machine."""

    controller: Literal["feed_forward", "lstm"] = "feed_forward"
    width: int = 100  # of the controller
    locations: int = 128
    memory: int = 20  # numbers at each location
    reading: int = 1  # heads that read
    writing: int = 1  # heads that write
    shift: int = 1  # locations that a head can move at a step, either way
    start: float = 1e-6  # what every place of the memory holds in the beginning


@register_algorithm_model(Config)
class TuringMachine(AlgorithmModel):
    """A controller with a memory that it addresses by content and by place."""

    def __init__(self, config: Config):
        super().__init__()
        if config.locations <= 2 * config.shift:
            raise ValueError(
                f"locations must be more than twice shift={config.shift}; got {config.locations}."
            )
        self.config = config
        heads, d = config.reading + config.writing, config.memory
        given = config.inputs + config.reading * d
        self.cell: nn.Module
        if config.controller == "lstm":
            self.cell = nn.LSTMCell(given, config.width)
        else:
            self.cell = nn.Linear(given, config.width)
        self.sizes = [d, 1, 1, 2 * config.shift + 1, 1]  # key, strength, gate, shifts, sharpness
        self.addresses = nn.Linear(config.width, heads * sum(self.sizes))
        self.contents = nn.Linear(config.width, config.writing * 2 * d)  # erase and add
        self.out = nn.Linear(config.width + config.reading * d, config.outputs)
        self.start = nn.Parameter(torch.zeros(config.reading, d))  # what is read before the first step
        self.content = Attention(score="dot")
        for linear in (self.addresses, self.contents, self.out):
            nn.init.xavier_uniform_(linear.weight, 0.5)
            nn.init.zeros_(linear.bias)

    @property
    def attention_paths(self) -> dict[str, list[str]]:
        """Its addressing by content; rows are heads, those that write first."""
        return {"memory": ["content"]}

    def run(self, inputs: Tensor) -> Run:
        """Logits (b, t, outputs) and weights (b, heads, t, locations) of inputs (b, t, inputs)."""
        config, (b, t, _) = self.config, inputs.shape
        heads = config.reading + config.writing
        memory = inputs.new_full((b, config.locations, config.memory), config.start)
        weights = F.one_hot(inputs.new_zeros(b, heads, dtype=torch.long), config.locations).to(inputs)
        found = self.start.tanh().expand(b, -1, -1)  # (b, reading, d)
        state = None
        logits, seen = [], []
        for step in range(t):
            hidden, state = self.control(torch.cat([inputs[:, step], found.flatten(1)], -1), state)
            weights = address(self.where(hidden), memory, weights, self.content)
            erase, add = self.contents(hidden).view(b, config.writing, 2, -1).unbind(2)
            memory = write(memory, weights[:, : config.writing], erase.sigmoid(), add.tanh())
            found = read(weights[:, config.writing :], memory)
            logits.append(self.out(torch.cat([hidden, found.flatten(1)], -1)))
            seen.append(weights)
        over_time = torch.stack(seen, 2)  # (b, heads, t, locations)
        writes, reads = over_time[:, : config.writing], over_time[:, config.writing :]
        return Run(torch.stack(logits, 1), writes, reads)

    def control(
        self, given: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """The controller's hidden state (b, width) after a step, and what it keeps for the next."""
        if self.config.controller == "lstm":
            h, c = self.cell(given, state)
            return h, (h, c)
        return self.cell(given).tanh(), None

    def where(self, hidden: Tensor) -> Address:
        """Where every head looks, from the controller's hidden state (b, width)."""
        heads = self.config.reading + self.config.writing
        parts = self.addresses(hidden).view(len(hidden), heads, -1).split(self.sizes, -1)
        key, strength, gate, shifts, sharpness = parts
        return Address(
            key.tanh(),
            F.softplus(strength.squeeze(-1)),
            gate.squeeze(-1).sigmoid(),
            shifts.softmax(-1),
            1 + F.softplus(sharpness.squeeze(-1)),
        )
