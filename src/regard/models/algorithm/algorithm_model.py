"""What every model of the task `algorithm` is: vectors of bits in, logits of bits out, a step at a time."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn


@dataclass(frozen=True)
class Common:
    """Configuration that all have."""

    inputs: int  # bits of an input vector, flags included
    outputs: int  # bits of an output vector


class Run(NamedTuple):
    """What a model did with sequences of t steps."""

    logits: Tensor  # (b, t, outputs)
    writes: Tensor | None = None  # weights of the heads that write, (b, heads, t, locations)
    reads: Tensor | None = None  # and of those that read


class AlgorithmModel(nn.Module):
    """A model that reads a vector of bits at each step and answers with another."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (b, t, outputs) of inputs (b, t, inputs)."""
        return self.run(inputs).logits

    def run(self, inputs: Tensor) -> Run:
        """The same, with what the heads did."""
        raise NotImplementedError

    @property
    def attention_paths(self) -> dict[str, list[str]]:
        """The paths of its attentions by role."""
        return {}
