"""The attentive MLP: each hidden state depends on its own word only, so weights are about single words.

    hⱼ = tanh(W embed(xⱼ) + b)        z = Attention(q, h)        ŷ = Wz + b

It is the control in the debate about attention as explanation: objections to models whose hidden states
depend on the whole text need not apply here. tanh bounds the states; without it (activation="none") the model
can give a word a small weight and a large vector.

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §3.4; the "average" encoder
of Jain & Wallace (2019), arXiv:1902.10186.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.models.classifiers.classifier_model import Common, initialize
from regard.models.classifiers.one_query import OneQuery
from regard.models.entries import register_classifier
from regard.models.parts.named_components import check_choice


@dataclass(frozen=True)
class Config(Common):
    """Configuration of an attentive MLP."""

    width: int = 128  # of the hidden states
    activation: Literal["tanh", "none"] = "tanh"


@register_classifier(Config)
class AttentiveMLP(OneQuery):
    """A layer on each word separately, attention with one query, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config, config.width)
        self.bounded = check_choice("activation", config.activation, ("tanh", "none")) == "tanh"
        self.layer = nn.Linear(config.embedding, config.width)
        initialize(self)

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        states: Tensor = self.layer(x)
        return torch.tanh(states) if self.bounded else states
