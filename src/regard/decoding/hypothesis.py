"""The interface of models that can be decoded, and the result of decoding."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Decodable(Protocol):
    """A model that encodes a source once and then decodes token by token."""

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """The encoded source (b, n) with lengths (b,); has select(index)."""
        ...

    def start(self, memory: Any) -> Any:
        """The state before the first token; has select(index)."""
        ...

    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Any, Any]:
        """Hidden (r, width) after tokens (r,), and the next state; the memory has r rows, or r/k."""
        ...

    def logits(self, hidden: Any) -> Tensor:
        """Logits (..., vocabulary) of hidden (..., width); some steps may have more tokens (copying)."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """A decoded target."""

    tokens: list[int]  # without BOS and EOS
    log_prob: float  # of the tokens and the EOS after them, by the model
    score: float  # log_prob with penalties, by which hypotheses are ranked


@dataclass(frozen=True)
class Limits:
    """The maximum target length, EOS included: scale · n + extra for n source tokens, at most `most`."""

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
