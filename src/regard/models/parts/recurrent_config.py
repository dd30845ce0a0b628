"""The configuration that recurrent encoder–decoders share."""

from dataclasses import dataclass
from typing import Literal

from regard.models.parts.copy_mechanism import Copy
from regard.models.parts.named_components import AttentionConfig
from regard.models.sequence_model import TranslatorConfig


@dataclass(frozen=True)
class RecurrentSizes(TranslatorConfig):
    """The sizes of a recurrent encoder–decoder."""

    width: int = 256  # of hidden states and embeddings
    layers: int = 1
    dropout: float = 0.2


@dataclass(frozen=True)
class RecurrentConfig(AttentionConfig, RecurrentSizes):
    """Configuration of a recurrent encoder–decoder with attention."""

    initial: Literal["glorot", "paper"] = "glorot"
    bias: tuple[str, ...] = ()  # "position", "markov:2" …: `parts/biases.py`
    copy: Copy = "no"  # or "gate" or "sentinel": source tokens can be copied, also unknown ones
