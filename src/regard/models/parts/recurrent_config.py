"""The configuration that the recurrent models with attention share."""

from dataclasses import dataclass
from typing import Literal

from regard.models.parts.copy_mechanism import Copy


@dataclass(frozen=True)
class RecurrentConfig:
    """Configuration of a recurrent encoder–decoder with attention."""

    source_vocabulary: int
    target_vocabulary: int
    width: int = 256  # of hidden states and embeddings
    layers: int = 1
    dropout: float = 0.2
    score: str = "additive"
    map: str = "softmax"
    learn_alpha: bool = False
    initial: Literal["glorot", "paper"] = "glorot"
    bias: tuple[str, ...] = ()  # "position", "markov:2" …: `parts/biases.py`
    copy: Copy = "no"  # or "gate" or "sentinel": source tokens can be copied, also unknown ones
