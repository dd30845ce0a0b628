"""The attentive CNN: each hidden state depends on a window of words around its own.

    hⱼ = relu(W [e_{j−k}; …; e_{j+k}] + b), for several k        z = Attention(q, h)        ŷ = Wz + b

It is between `attentive_mlp` (a window of one word) and `attentive_bilstm` (the whole text).

Jain & Wallace (2019), arXiv:1902.10186; convolutions of several widths over a sentence: Kim (2014),
"Convolutional Neural Networks for Sentence Classification", arXiv:1408.5882, there with max pooling
in place of attention.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models.classifiers.classifier_model import Common, initialize
from regard.models.classifiers.one_query import OneQuery
from regard.models.entries import register_classifier


@dataclass(frozen=True)
class Config(Common):
    """Configuration of an attentive CNN."""

    width: int = 128  # of the hidden states, all windows together
    windows: tuple[int, ...] = (1, 3, 5, 7)  # odd numbers of words


@register_classifier(Config)
class AttentiveCNN(OneQuery):
    """Convolutions of several widths, attention with one query, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config, config.width)
        windows = config.windows
        if not windows or any(k < 1 or k % 2 == 0 for k in windows):
            raise ValueError(f"windows must be odd numbers of words; got {list(windows)}.")
        if config.width % len(windows):
            raise ValueError(f"{len(windows)} windows must divide the width; got width={config.width}.")
        each = config.width // len(windows)
        self.layers = nn.ModuleList(nn.Conv1d(config.embedding, each, k, padding=k // 2) for k in windows)
        initialize(self)

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.cat([torch.relu(layer(x.mT)) for layer in self.layers], -2).mT
