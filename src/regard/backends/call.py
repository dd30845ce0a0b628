"""One call of attention: the three things, the three steps, and what every backend must respect."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.backends.groups import copied, merged, merged_place, split, split_products
from regard.backends.key_codes import KeyCodes
from regard.core.decoding_counts import Counts
from regard.core.place import Place
from regard.core.recorders import Change
from regard.core.shapes import joined, widened
from regard.maps.table import Map, canonical, facts_of
from regard.masks.mask import Given, Mask
from regard.scores.score import Factored, Products, Score, score_at

ValueTerm = Callable[[Tensor, Place], Tensor]
NOWHERE = Place(torch.empty(0), torch.empty(0))  # for scores that do not ask


@dataclass(frozen=True, eq=False)
class Call:
    """Query, keys and values, already cleaned by the mask, and how to attend with them."""

    query: Tensor  # (..., m, d_q); with groups (..., kv, g, m, d_q)
    keys: Tensor  # (..., n, d_k); with groups (..., kv, 1, n, d_k)
    values: Tensor  # (..., n, d_v); with groups (..., kv, 1, n, d_v)
    score: Callable[..., Tensor]
    map: Callable[..., Tensor]
    mask: Mask | None
    sees: Tensor | None  # (..., m or 1): which queries may look at anything; None = all
    place: Place | None = None  # None: the last m places of n, made when a term asks
    dropout: float = 0.0
    change: Change | None = None  # an intervention on the weights
    sink: Tensor | None = None  # (..., m or 1): the score of one more key, which has no value
    groups: int = (
        1  # heads that share keys; if more than one, all above has an axis for them: (..., kv, g, …)
    )
    value_term: ValueTerm | None = None  # of weights (..., m, n) and place: added to the context
    factor: float = 1.0  # of the scores: a temperature of the map, taken out of it
    codes: tuple[KeyCodes, int, int] | None = None  # of the keys in a cache, and which of them these are
    counts: Counts | None = None  # where the certified backend counts

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
    def heads(self) -> int:
        """Heads that share keys times heads that do not, where there are groups."""
        return self.query.shape[-4] * self.query.shape[-3]

    @property
    def tracked(self) -> bool:
        """Whether a gradient may be asked of the context."""
        return torch.is_grad_enabled() and any(
            t.requires_grad for t in (self.query, self.keys, self.values, *self.parameters())
        )

    def parameters(self) -> list[Tensor]:
        """The parameters of score, map and sink."""
        modules = [s for s in (self.score, self.map, self.value_term) if isinstance(s, nn.Module)]
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

    def canonical(self) -> "Call":
        """The same call with its map as MAPS has it, where it is another spelling of one of these."""
        map, factor = canonical(self.map)
        if map is self.map:
            return self
        sink = self.sink if self.sink is None or factor == 1 else self.sink * factor
        return replace(self, map=map, factor=self.factor * factor, sink=sink)

    def scores(self, visible: Tensor | None) -> Tensor:
        """θ (..., m, n), before the mask."""
        place = None
        if getattr(self.score, "uses_place", False):
            place = replace(self.where(), visible=visible)
        states = bool(getattr(self.map, "states", None))
        if self.groups == 1:
            theta = score_at(self.score, self.query, self.keys, place, states)
        elif (found := self._products(place)) is not None:
            theta = found.written()
        elif isinstance(self.score, Score) and self.score.broadcasts:
            theta = score_at(self.score, self.query, self.keys, place, states)
        else:  # who knows what it does: it gets what it would get without groups
            keys, flat = copied(self.keys, self.groups), place and merged_place(place, self.heads)
            theta = score_at(self.score, merged(self.query, self.heads), keys, flat, states)
            theta = split(theta, self.groups, -4 if states else -3)
        return theta if self.factor == 1 else theta * self.factor

    def factors(self) -> tuple[Tensor, Tensor]:
        """Query (..., m, d) and keys (..., n, d) whose dot products are θ, of a `Factored` score."""
        score = self.score
        if self.groups == 1 and self.factor == 1 and isinstance(score, Factored):  # nothing else to ask
            place = (self.where(),) if score.uses_place else ()
            return score.factors(widened(self.query), widened(self.keys), *place)
        found = self.products()
        assert found is not None and found.bare
        return found.query, found.keys

    def products(self, *, keys_as_stored: bool = False) -> Products | None:
        """The scores in the form fast backends take; None if they have none.

        Half precision is widened, except for keys that are wanted as they are stored.
        """
        found = self._products(None, keys_as_stored)
        return found if found is None or self.factor == 1 else found.times(self.factor)

    def _products(self, place: Place | None, keys_as_stored: bool = False) -> Products | None:
        if not isinstance(self.score, Score):
            return None
        query, keys = widened(self.query), self.keys if keys_as_stored else widened(self.keys)
        place = place or (self.where() if self.score.uses_place else NOWHERE)
        if self.groups == 1:
            return self.score.products(query, keys, place)
        each = keys.squeeze(-3)  # (..., kv, n, d_k)
        place = merged_place(place, self.heads)
        found = self.score.products(merged(query, self.heads), each, place)
        if found is None:
            return None
        made = split_products(found, self.groups, each.shape[-3])
        return (
            replace(made, keys=keys) if found.keys is each else made
        )  # backends ask whether keys are the same

    def weights(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        """p (..., m, n), with groups (..., heads, m, n): the map under the mask, before any intervention."""
        sink = self.sink
        if self.groups > 1:
            heads, states = self.heads, bool(getattr(self.map, "states", None))
            scores = merged(scores, heads, -4 if states else -3)
            visible = None if visible is None else merged(visible, heads)
            sink = None if sink is None else merged(sink, heads, -2)
        if sink is None:
            return masked(self.map, scores, visible)
        more = sink.to(scores.dtype).unsqueeze(-1).expand(*scores.shape[:-1], 1)
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
