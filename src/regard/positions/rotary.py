"""Rotary positions: pairs of coordinates are rotated by the position, so that scores know distances.

    (x_a + i x_b) ↦ e^{i t ω} (x_a + i x_b)          ω_i = base^{−2i/d},  position t

Both factors of a dot product are rotated, and ⟨R_s q, R_t k⟩ = ⟨q, R_{t−s} k⟩: the score depends on the
distance t − s and not on where counting starts. Pairs are coordinates i and i + d/2 ("halves", as in
GPT-NeoX, Llama and what came after), or 2i and 2i + 1 (interleaved=True, as in the paper, GPT-J and the first
Llama's own code). With `turned` only the first coordinates are rotated, as in GPT-NeoX.

A growing `KeyValue` cache of `MultiHead` holds keys that were rotated when they came, so that a step rotates
one query and one key; only a scaling that depends on the length rotates all of them at each step.

Su et al. (2021), "RoFormer", arXiv:2104.09864, §3.2, 3.4.2.
"""

import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.kernels.common.operator import is_plain
from regard.positions.rotary_scaling import Scaling, unscaled
from regard.scores.dot import Dot
from regard.scores.scaled_dot import ScaledDot
from regard.scores.score import Factored

Positions = Tensor | range  # (..., k), or so many in a row


class Rotary(Factored):
    """A score of dot products, its factors (..., k, width) rotated by their positions; default: scaled dot.

    `Rotary(64)`, `Rotary(64, base=500_000.0, scaling=Llama3())`, `Rotary(64, score=Cosine())`,
    `Rotary(64) + ALiBi(8)`.
    """

    uses_place = True

    def __init__(
        self,
        width: int,
        base: float = 10_000.0,
        *,
        score: Factored | None = None,
        turned: int | None = None,
        interleaved: bool = False,
        scaling: Scaling | None = None,
    ):
        super().__init__()
        turned = width if turned is None else turned
        if turned % 2 or not 0 < turned <= width:
            raise ValueError(
                f"turned must be an even number of at most width={width} coordinates; got {turned}."
            )
        if not base > 1:
            raise ValueError(f"base must be above 1; got {base}.")
        score = ScaledDot() if score is None else score
        if not isinstance(score, Factored) or score.uses_place:
            raise TypeError(
                f"rotary positions rotate the factors of a dot product; got score={type(score).__name__}, "
                "which has none. Use ScaledDot(), Dot(), Cosine() or Bilinear(d_q, d_k)."
            )
        self.width, self.base, self.score, self.turned = width, float(base), score, turned
        self.interleaved, self.scaling = interleaved, scaling
        self._table: tuple[Tensor, Tensor] | None = None  # not buffers: made in float64, cast when asked for

    def factors(self, query: Tensor, keys: Tensor, place: Place) -> tuple[Tensor, Tensor]:
        """Both factors of the score inside, rotated."""
        m, n = query.shape[-2], keys.shape[-2]
        at_q: Positions = place.queries
        at_k: Positions = place.keys
        if place.shift is not None:  # only distances count: so that both are at least 0
            start = max(0, place.shift), max(0, -place.shift)
            at_q, at_k = range(start[0], start[0] + m), range(start[1], start[1] + n)
        a, b = self.score.factors(query, keys)
        return self.rotated(a, at_q, n), b if place.encoded else self.rotated(b, at_k, n)

    def rotated(self, x: Tensor, positions: Positions, n: int | None = None) -> Tensor:
        """x (..., k, width) rotated by positions (..., k), for example range(offset, offset + k).

        A scaling that depends on the length takes it from n.
        """
        if x.shape[-1] != self.width:
            raise ShapeError(f"rotary positions must have width={x.shape[-1]} as the keys; got {self.width}.")
        cos, sin = self.turns(x, positions, n)  # (..., k, turned / 2)
        part = x if self.turned == self.width else x[..., : self.turned]
        if self.interleaved:
            a, b = part[..., 0::2], part[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        else:
            a, b = part.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        return turned if part is x else torch.cat([turned, x[..., self.turned :]], -1)

    def encoded(self, keys: Tensor, positions: Positions) -> Tensor | None:
        if self.scaling is not None and self.scaling.by_length:
            return None
        if not isinstance(self.score, Dot | ScaledDot):  # the score inside changes keys too
            return None
        return self.rotated(keys, positions)

    def turns(self, x: Tensor, positions: Positions, n: int | None) -> tuple[Tensor, Tensor]:
        """Cosines and sines (..., k, turned / 2) of the angles at these positions."""
        by_length = self.scaling is not None and self.scaling.by_length
        if not isinstance(positions, range) or by_length or not is_plain(x):
            at = torch.arange(positions.start, positions.stop) if isinstance(positions, range) else positions
            longest = positions.stop if isinstance(positions, range) else x.shape[-2]
            return self._computed(at.to(x.device), n or longest, x)
        table = self._table
        if table is None or len(table[0]) < positions.stop or table[0].dtype != x.dtype:
            with torch.inference_mode(False):
                more = 0 if table is None or table[0].dtype != x.dtype else 2 * len(table[0])
                size = max(positions.stop, more, 64)
                table = self._computed(torch.arange(size), 0, x)
            self._table = table
        return table[0][positions.start : positions.stop], table[1][positions.start : positions.stop]

    def _computed(self, positions: Tensor, n: int, x: Tensor) -> tuple[Tensor, Tensor]:
        omega, factor = unscaled(self.base, self.turned), 1.0
        if self.scaling is not None:
            omega, factor = self.scaling.frequencies(self.base, self.turned, n)
        angles = positions.to(torch.float64).unsqueeze(-1) * omega.to(positions.device)
        return (factor * angles.cos()).to(x), (factor * angles.sin()).to(x)

    def extra_repr(self) -> str:
        parts = [f"{self.width}", f"base={self.base:g}"]
        parts += [f"turned={self.turned}"] if self.turned != self.width else []
        parts += ["interleaved=True"] if self.interleaved else []
        return ", ".join(parts + ([f"scaling={self.scaling}"] if self.scaling is not None else []))
