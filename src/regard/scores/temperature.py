"""Temperature: a score divided by a number, one for each head, fixed or learned.

    θ = score(q, K) / T_h

A learned temperature is kept positive as its logarithm. For every map; softmax and fusedmax also take a
temperature as a setting of their own.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.scores.score import Products
from regard.scores.wrapped_score import Wrapped


class Temperature(Wrapped):
    """Any score over a temperature: a number, or one for each head; with learn=True it is learned.

    A number may be given for several heads: `Temperature("scaled_dot", 1.0, heads=8, learn=True)`.
    """

    def __init__(
        self,
        score: str | Callable[..., Tensor] = "scaled_dot",
        temperature: float | Sequence[float] | Tensor = 1.0,
        *,
        heads: int | None = None,
        learn: bool = False,
    ):
        super().__init__(score)
        if isinstance(temperature, Tensor):
            if temperature.requires_grad:
                raise TypeError("a temperature that is learned is made here: give numbers, and learn=True.")
            temperature = temperature.tolist()
        each = [temperature] * (heads or 1) if isinstance(temperature, int | float) else list(temperature)
        if heads not in (None, len(each)) or not each:
            raise ValueError(f"there must be a temperature for each of {heads} heads; got {len(each)}.")
        if not all(t > 0 for t in each):
            raise ValueError(f"temperature must be above 0; got {temperature}.")
        logs = torch.tensor(each, dtype=torch.float64).log()
        self.heads, self.learn = len(each), learn
        self.log_temperature: Tensor
        if learn:
            self.log_temperature = nn.Parameter(logs.float())
        else:
            self.register_buffer("log_temperature", logs, persistent=False)

    @property
    def temperature(self) -> Tensor:
        """(heads,)."""
        return self.log_temperature.exp()

    def factor(self, like: Tensor) -> Tensor:
        """1/T, (heads, 1, 1), or a number if there is one for all heads."""
        factor = (-self.log_temperature).exp().to(like.dtype)
        return factor.view(-1, 1, 1) if self.heads > 1 else factor.squeeze(0)

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., heads, m, d_q) against keys (..., heads, n, d_k): (..., heads, m, n)."""
        return self.theta(query, keys, place) * self.factor(query)

    def products(self, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        found = self.inner_products(query, keys, place)
        return None if found is None else found.times(self.factor(query))

    def extra_repr(self) -> str:
        found = ", ".join(f"{t:.3g}" for t in self.temperature.tolist())
        return f"temperature={found}, learn={self.learn}"
