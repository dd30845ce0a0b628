"""A cache pointer for any language model, without training: words that came in a like place get likelier.

    p(w) = (1 − λ) p_model(w) + λ Σ_{i: w_{i+1} = w} softmax_i(κ h_t · h_i / ‖h‖²)

The cache holds the hidden states h_i of the last tokens, each with the token that came after it. The state
of the moment is the query; weights on the same word add up. κ says how sharply it looks, λ how much it
counts; dividing by the mean squared norm of the states makes one κ fit models of any width.

Grave, Joulin & Usunier (2017), "Improving Neural Language Models with a Continuous Cache", arXiv:1612.04426,
§3, with the norm as our own addition.
"""

import torch
from torch import Tensor

from regard.attention import attend


class CachePointer:
    """The last `size` states and the tokens after them; `share` is λ, `sharpness` is κ."""

    def __init__(self, size: int, share: float = 0.1, sharpness: float = 4.0):
        if size < 1 or not 0 <= share < 1 or not sharpness > 0:
            raise ValueError(
                "a cache needs a size of at least 1, a share in [0, 1) and a sharpness above 0; "
                f"got {size}, {share} and {sharpness}."
            )
        self.size, self.share, self.sharpness = size, share, sharpness
        self.states: list[Tensor] = []
        self.tokens: list[int] = []

    def add(self, hidden: Tensor, token: int) -> None:
        """Remember that this token came at a hidden state (d,)."""
        self.states, self.tokens = [*self.states, hidden][-self.size :], [*self.tokens, token][-self.size :]

    def mixed(self, logits: Tensor, hidden: Tensor) -> Tensor:
        """Log-probabilities (v,) of the mixture, from logits (v,) and the hidden state (d,) behind them."""
        p = logits.double().softmax(-1)
        if self.states:
            keys = torch.stack(self.states).double()
            scale = self.sharpness / keys.square().sum(-1).mean().clamp(min=1e-12)
            weights = attend(hidden.double().unsqueeze(0) * scale, keys, score="dot").weights[0]
            index = torch.tensor(self.tokens, device=p.device)
            p = (1 - self.share) * p + self.share * torch.zeros_like(p).index_add(0, index, weights)
        return p.log()
