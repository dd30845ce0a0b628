"""The attentive BiLSTM: the model at the centre of the debate about attention as explanation.

    h = BiLSTM(embed(x))        z = Attention(q, h)        ŷ = Wz + b

Each hidden state depends on the whole text, so a high weight on a state need not mean that its own word was
important. In `attentive_mlp` a state depends on its own word only; `orthogonal` keeps states from being
similar (`regard.models.classifiers.orthogonal_lstm`).

Jain & Wallace (2019), "Attention is not Explanation", arXiv:1902.10186, §2.
Departs from the paper: word vectors are learned from scratch unless pretrained ones are given; dropout.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.models.classifiers.classifier_model import Common, initialize
from regard.models.classifiers.one_query import OneQuery
from regard.models.classifiers.orthogonal_lstm import OrthogonalLSTM
from regard.models.entries import register_classifier
from regard.models.parts.bidirectional import BidirectionalRNN


@dataclass(frozen=True)
class Config(Common):
    """Configuration of an attentive BiLSTM."""

    width: int = 128  # of the hidden states; half in each direction
    layers: int = 1
    cell: Literal["lstm", "gru"] = "lstm"
    orthogonal: bool = False  # each state orthogonal to the sum of those before


@register_classifier(Config)
class AttentiveBiLSTM(OneQuery):
    """A bidirectional LSTM or GRU, attention with one query, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config, config.width)
        sizes = (config.embedding, config.width, config.layers, config.dropout)
        if config.orthogonal and config.cell != "lstm":
            raise ValueError(f'orthogonal is for cell="lstm"; got {config.cell!r}.')
        self.encoder = OrthogonalLSTM(*sizes) if config.orthogonal else BidirectionalRNN(*sizes, config.cell)
        initialize(self)

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        states: Tensor = self.encoder(x, lengths)
        return states
