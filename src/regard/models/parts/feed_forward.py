"""The feed-forward sublayer: the same two-layer network at every position.

    FFN(x) = W₂ max(0, W₁x + b₁) + b₂

Vaswani et al. (2017), arXiv:1706.03762, §3.3. GELU in place of the maximum: Hendrycks & Gimpel (2016),
arXiv:1606.08415; its square: So et al. (2021), "Primer", arXiv:2109.08668.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from regard.kernels.decoding.few_rows import linear
from regard.models.parts.named_components import check_choice

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),  # as in GPT-2
    "squared_relu": lambda x: F.relu(x).square(),
}


class FeedForward(nn.Module):
    """A network with one hidden layer of width `inner`; `activation` is one of ACTIVATIONS."""

    def __init__(self, width: int, inner: int, activation: str = "relu"):
        super().__init__()
        self.activation = ACTIVATIONS[check_choice("activation", activation, tuple(ACTIVATIONS))]
        self.W1, self.W2 = nn.Linear(width, inner), nn.Linear(inner, width)
        for layer in (self.W1, self.W2):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to (..., width)."""
        return linear(self.W2, self.activation(linear(self.W1, x)))
