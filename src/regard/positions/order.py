"""Position bias: the positions of query and key in their sentences.

    f = [log(1 + i), log(1 + j), log(1 + n)]          query i, key j, n keys

These are the quantities of the diagonal i/m ≈ j/n, except m, which a decoder does not know.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.1.
"""

import torch
from torch import Tensor

from regard.core.place import Place
from regard.positions.feature_terms import Features


class Order(Features):
    """A term of three features; `Additive(…, terms=[Order()])` puts them inside the tanh."""

    def __init__(self) -> None:
        super().__init__(3)

    def features(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m, n, 3)."""
        i, j = place.queries.unsqueeze(-1), place.keys.unsqueeze(-2)  # (..., m, 1), (..., 1, n)
        if place.lengths is None:
            n = torch.full_like(j[..., :1], keys.shape[-2])
        else:
            n = place.lengths.reshape(*place.lengths.shape, *[1] * (query.dim() - place.lengths.dim()))
        return torch.stack(
            torch.broadcast_tensors(*(x.clamp(min=0).to(query.dtype).log1p() for x in (i, j, n))), -1
        )
