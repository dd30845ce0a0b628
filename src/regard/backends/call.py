"""One call of attention: the three things, the three steps, and what every backend must respect."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.place import Place
from regard.core.recorders import Change
from regard.core.shapes import joined, widened
from regard.maps.table import Map, facts_of
from regard.masks.mask import Given, Mask
from regard.scores.score import Factored, Products, Score, score_at


@dataclass(frozen=True, eq=False)
class Call:
    """Query, keys and values, already cleaned by the mask, and how to attend with them."""

    query: Tensor  # (..., m, d_q)
    keys: Tensor  # (..., n, d_k)
    values: Tensor  # (..., n, d_v)
    score: Callable[..., Tensor]
    map: Callable[..., Tensor]
    mask: Mask | None
    sees: Tensor | None  # (..., m or 1): which queries may look at anything; None = all
    place: Place | None = None  # None: the last m places of n, made when a term asks
    dropout: float = 0.0
    change: Change | None = None  # an intervention on the weights
    sink: Tensor | None = None  # (..., m or 1): the score of one more key, which has no value

    @property
    def m(self) -> int:
        return self.query.shape[-2]

    @property
    def n(self) -> int:
        return self.keys.shape[-2]

    @property
    def batch(self) -> torch.Size:
        """The axes before (m, n) that query and keys have together."""
        return joined(self.query.shape[:-2], self.keys.shape[:-2], self.values.shape[:-2])

    @property
    def facts(self) -> Map | None:
        return facts_of(self.map)

    @property
    def name(self) -> str:
        """The name of the map in MAPS, where it is that function with its default settings; else ""."""
        facts = self.facts
        return facts.name if facts is not None and self.map is facts.function else ""

    @property
    def tracked(self) -> bool:
        """Whether a gradient may be asked of the context."""
        return torch.is_grad_enabled() and any(
            t.requires_grad for t in (self.query, self.keys, self.values, *self.parameters())
        )

    def parameters(self) -> list[Tensor]:
        """The parameters of score, map and sink."""
        modules = [s for s in (self.score, self.map) if isinstance(s, nn.Module)]
        return [p for module in modules for p in module.parameters()] + (
            [] if self.sink is None else [self.sink]
        )

    def visible(self, start: int, stop: int) -> Tensor | None:
        """The mask of queries start to stop: (..., stop − start or 1, n)."""
        if self.mask is None:
            return None
        return self.mask.rows(start, stop, self.m, self.n, len(self.batch), self.query.device)

    def rows(self, start: int, stop: int) -> "Call":
        """The same call for queries start to stop alone, its mask written out."""
        visible = self.visible(start, stop)
        sees = self.sees if self.sees is None or self.sees.shape[-1] == 1 else self.sees[..., start:stop]
        return replace(
            self,
            query=self.query[..., start:stop, :],
            mask=None if visible is None else Given(visible),
            sees=sees,
            place=self.where().rows(start, stop),
            sink=self.sink if self.sink is None or self.sink.shape[-1] == 1 else self.sink[..., start:stop],
        )

    def where(self) -> Place:
        """The place of the queries and keys."""
        if self.place is not None:
            return self.place
        lengths = None if self.mask is None else self.mask.lengths()
        return Place.default(self.m, self.n, self.query.device, lengths)

    def scores(self, visible: Tensor | None) -> Tensor:
        """θ (..., m, n), before the mask."""
        place = None
        if getattr(self.score, "uses_place", False):
            place = replace(self.where(), visible=visible)
        return score_at(self.score, self.query, self.keys, place, bool(getattr(self.map, "states", None)))

    def factors(self) -> tuple[Tensor, Tensor]:
        """Query (..., m, d) and keys (..., n, d) whose dot products are θ, of a `Factored` score."""
        assert isinstance(self.score, Factored)
        place = (self.where(),) if self.score.uses_place else ()
        return self.score.factors(widened(self.query), widened(self.keys), *place)

    def products(self) -> Products | None:
        """The scores in the form fast backends take; None if they have none."""
        if not isinstance(self.score, Score):
            return None
        return self.score.products(widened(self.query), widened(self.keys), self.where())

    def weights(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        """p (..., m, n): the map under the mask, before any intervention."""
        if self.sink is None:
            return masked(self.map, scores, visible)
        more = self.sink.to(scores.dtype).unsqueeze(-1).expand(*scores.shape[:-1], 1)
        seen = None if visible is None else F.pad(visible, (0, 1), value=True)
        return masked(self.map, torch.cat([scores, more], -1), seen)[..., :-1]


def masked(map: Callable[..., Tensor], scores: Tensor, visible: Tensor | None) -> Tensor:
    """The map of the visible scores (..., m, n); hidden keys and empty rows get weight 0 and no gradient.

    A map with `states` takes scores (..., m, n, states), and a hidden key is hidden in all of them.
    """
    if visible is None:
        return map(scores)
    if getattr(map, "states", None):
        return map(scores.masked_fill(~visible.unsqueeze(-1), float("-inf")))
    filled = scores.masked_fill(~visible, float("-inf"))
    if facts_of(map) is not None:
        return map(filled)  # ours: −inf is weight 0, a row of nothing else is zeros
    some = visible.any(-1, keepdim=True)
    return map(filled.masked_fill(~some, 0.0)).masked_fill(~visible, 0.0)
