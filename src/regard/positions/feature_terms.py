"""Terms given by features: a few numbers for every pair of query and key.

    θᵢⱼ += wᵀ fᵢⱼ          or, inside the nonlinearity of a score,   tanh(… + W fᵢⱼ)

Outside, the term has a learned weight vector w; inside, the score has a matrix W for it.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.place import Place


class Features(nn.Module):
    """A term of `width` features; `Additive(…, terms=[term])` applies them inside the tanh."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.w: nn.Linear | None = nn.Linear(width, 1, bias=False)

    def taken(self) -> None:
        """A score has taken this term inside its nonlinearity: the term's own weight vector is removed."""
        self.w = None

    def features(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m, n, width), or a shape that broadcasts to it."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m, n)."""
        if self.w is None:
            raise ValueError(
                f"this {type(self).__name__} is already inside a score; make another one to add to a score."
            )
        features = self.features(query, keys, place)
        return F.linear(features, self.w.weight.to(features.dtype)).squeeze(-1)


def around(weights: Tensor | None, reach: int, query: Tensor, keys: Tensor) -> Tensor:
    """The weights of the keys at −reach … reach from each key: (..., m, n, 2 reach + 1).

    They are 0 beyond the first and the last key, and before the first step (weights=None).
    """
    if weights is None:
        return query.new_zeros(1, keys.shape[-2], 2 * reach + 1)
    return F.pad(weights.to(query.dtype), (reach, reach)).unfold(-1, 2 * reach + 1, 1)


def check_reach(reach: int) -> int:
    """Require a whole number of at least 0."""
    if isinstance(reach, bool) or not isinstance(reach, int) or reach < 0:
        raise ValueError(f"reach must be a whole number of at least 0; got {reach!r}.")
    return reach
