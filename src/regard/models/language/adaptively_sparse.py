"""The adaptively sparse Transformer, decoder only: every head learns how sparse its attention is.

    p = α-entmax(θ),     α = 1 + σ(a) with a learned for each head

α = 1 is softmax, α = 2 sparsemax. The gradient of a is that of α times σ'(a), which dies as σ(a) nears 0 or
1: a head that has got there stays. Validation lines of the log have the mean of α and the number of such
heads.

Correia, Niculae & Martins (2019), "Adaptively Sparse Transformers", arXiv:1909.00015. The translator has the
same with --map entmax --learn-alpha, and so have gpt and bert.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from regard.heads import MultiHead
from regard.maps import Entmax, Scalable
from regard.models.entries import register_language_model
from regard.models.language.gpt import GPT
from regard.models.language.gpt import Config as GPTConfig
from regard.models.parts.self_attention_layer import SelfAttentionLayer

SATURATED = 0.01  # as near to 1 or 2, α hardly moves any more


@dataclass(frozen=True)
class Config(GPTConfig):
    """Configuration of an adaptively sparse Transformer."""

    map: str = "entmax"
    learn_alpha: bool = True


@register_language_model(Config)
class AdaptivelySparse(GPT):
    """A decoder whose heads learn their α."""

    def __init__(self, config: Config):
        super().__init__(config)
        if not config.learn_alpha:
            raise ValueError("adaptively_sparse learns α: learn_alpha must be true. Use gpt for a fixed map.")

    @property
    def alphas(self) -> Tensor:
        """α of every head: (layers, heads)."""
        maps = [cast(MultiHead, cast(SelfAttentionLayer, layer).attention).map for layer in self.layers]
        own = [one.map if isinstance(one, Scalable) else one for one in maps]
        return torch.stack([torch.as_tensor(cast(Entmax, one).alpha) for one in own])

    def figures(self) -> dict[str, float]:
        alphas = self.alphas.detach()
        stuck = (alphas < 1 + SATURATED) | (alphas > 2 - SATURATED)
        return {"alpha": float(alphas.mean()), "saturated_heads": float(stuck.sum())}
