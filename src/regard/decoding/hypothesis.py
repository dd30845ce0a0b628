"""What decoding asks of a model, and what it gives back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Decodable(Protocol):
    """A model that reads a source once and then writes one token after another."""

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """What is needed of the source (b, n) with lengths (b,); has select(index)."""
        ...

    def start(self, memory: Any) -> Any:
        """The state before the first token; has select(index)."""
        ...

    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Any, Any]:
        """Hidden (r, width) after tokens (r,), and the state after them; the memory has r rows, or r/k."""
        ...

    def logits(self, hidden: Any) -> Tensor:
        """Logits (..., vocabulary) of hidden (..., width); there may be more words in some steps."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One way to write it."""

    tokens: list[int]  # without BOS and EOS
    log_prob: float  # of the tokens and the EOS after them, by the model
    score: float  # what was searched for: log_prob with penalties; the same where there are none


@dataclass(frozen=True)
class Limits:
    """How long a target may be, EOS included: scale · n + extra for a source of n tokens, at most `most`."""

    scale: float = 1.5
    extra: int = 20
    most: int = 1024

    def of(self, lengths: Tensor) -> Tensor:
        """The limit (b,) of each of the sources with lengths (b,), at least 1."""
        return (lengths * self.scale + self.extra).long().clamp(1, self.most)


USUAL = Limits()


@contextmanager
def deciding(model: Decodable) -> Iterator[None]:
    """Without gradient and dropout; the model is left as it was."""
    training = isinstance(model, nn.Module) and model.training
    if isinstance(model, nn.Module):
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        if training and isinstance(model, nn.Module):
            model.train()
