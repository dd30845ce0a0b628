"""The three steps of every attention.

    θ = score(q, K)        p = map(θ)        z = p V

The context comes at once, on the fastest backend. Scores and weights come when somebody looks, from the same
query, keys and mask, so looking never changes the answer.
"""

from collections.abc import Callable
from typing import Never

from torch import Tensor, nn

from regard.attended import Attended as Attended
from regard.attended import concat_steps as concat_steps
from regard.attended import versions_of
from regard.backends.call import Call, ValueTerm
from regard.backends.dispatch import dispatch
from regard.backends.groups import merged, split, split_mask, split_place
from regard.backends.hidden import by_any_of_group as by_any_of_group
from regard.backends.hidden import refuse_causal_matrix
from regard.backends.hidden import zeroed as zeroed
from regard.backends.key_codes import KeyCodes
from regard.backends.sink import set_sink as set_sink
from regard.backends.sink import sink_scores
from regard.backends.sink import takes_sink as takes_sink
from regard.core.attention_inputs import checked, exact
from regard.core.decoding_counts import counts_of
from regard.core.foreign_names import refuse
from regard.core.names import name_of as name_of
from regard.core.place import Place
from regard.core.recorders import Attentive, attends, change_for, changed_inputs, intervened, show
from regard.core.shapes import check_rate, joined
from regard.maps.resolve_map import resolve_map as resolve_map
from regard.masks import Mask, as_mask
from regard.scores.resolve_score import resolve_score as resolve_score

Score = Callable[..., Tensor]
Map = Callable[..., Tensor]


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor | None = None,
    *,
    score: str | Score = "scaled_dot",
    map: str | Map = "softmax",
    mask: Mask | Tensor | None = None,
    place: Place | None = None,
    scale: float | None = None,
    sink: float | Tensor | None = None,
    groups: int = 1,
    value_term: ValueTerm | None = None,
    dropout: float = 0.0,
    owner: nn.Module | None = None,
    **other: Never,
) -> Attended:
    """Attend with query (..., m, d_q) to keys (..., n, d_k) and values (..., n, d_v): context (..., m, d_v).

    Values default to keys. A boolean mask says True where a query may look. `place` is for terms that ask
    where things stand; `dropout` is applied to the weights whenever it is not 0 (`Attention` sets it while
    training only); `owner` is the module that `record` and `intervene` know this attention by, a
    `regard.Attentive`.

    `scale` is the factor of the scaled dot product, 1/√d_k unless given. `sink` is the score of one more key,
    which takes weight and has no value: a number, one for each head (heads,), or (..., heads, m or 1). With
    `groups` so many heads share keys, which are not copied: query (..., heads, m, d_q), keys and values (...,
    heads / groups, n, ·). `value_term` adds to the context what it makes of weights (..., m, n) and place, as
    `positions.RelativeValues` does.
    """
    if other:
        refuse("attend", other)
    if owner is not None and not attends(owner):
        name = type(owner).__name__
        raise TypeError(
            f"owner must be a regard.Attentive, by which record and intervene find it; got {name}. "
            f"Write class {name}(regard.Attentive), which is a nn.Module."
        )
    values = keys if values is None else values
    query, keys, values = checked(query, keys, values, groups)
    score, map = resolve_score(score, scale=scale), resolve_map(map)
    check_rate("dropout", dropout)
    mask, sees = None if mask is None else as_mask(mask), None
    if mask is not None:
        batch, m, n = (
            joined(query.shape[:-2], keys.shape[:-2], values.shape[:-2]) if groups == 1 else query.shape[:-2],
            query.shape[-2],
            keys.shape[-2],
        )
        mask.check(batch, m, n)
        seen, sees = mask.seen(m, n, len(batch), query.device)
        query, seen = zeroed(query, sees), by_any_of_group(seen, groups)
        keys, values = zeroed(keys, seen), zeroed(values, seen)
    return run(
        query, keys, values, score, map, mask, sees, place, dropout, owner,
        sink=sink, groups=groups, value_term=value_term,
    )  # fmt: skip


def run(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    score: Score,
    map: Map,
    mask: Mask | None,
    sees: Tensor | None,
    place: Place | None,
    dropout: float,
    owner: nn.Module | None,
    then: Callable[[Tensor], Tensor] | None = None,
    *,
    sink: float | Tensor | None = None,
    groups: int = 1,
    value_term: ValueTerm | None = None,
    codes: tuple[KeyCodes, int, int] | None = None,
) -> Attended:
    """Attend with what has been checked and cleaned; `then` is applied to the context (the heads' output).

    With groups the query has `heads` heads, keys and values have heads / groups; all else is for `heads`.
    `codes` are those of the keys, if they are all that is in a `Quantised` cache.
    """
    if codes is not None and intervened(owner):
        codes = None
    query, keys, values = changed_inputs(owner, query, keys, values)
    added = None if sink is None else sink_scores(sink, query, map)
    if groups > 1:
        query, keys, values = split(query, groups), *(split(t, groups, shared=True) for t in (keys, values))
        mask, place = mask and split_mask(mask, groups, query.dim() - 3), place and split_place(place, groups)
        sees, added = (t if t is None else split(t, groups, -2) for t in (sees, added))
    call = Call(
        query, keys, values, score, map, mask, sees, place, dropout, change_for(owner), added, groups,
        value_term, codes=codes, counts=None if codes is None or owner is None else counts_of(owner),
    )  # fmt: skip
    refuse_causal_matrix(call)
    with exact(query):
        context, kept = dispatch(call.canonical())
    context = context.to(query.dtype)
    if groups > 1:
        context = merged(context, call.heads)
    attended = Attended(context if then is None else then(context), call, kept, versions_of(call))
    if owner is not None:
        show(owner, attended)
    return attended


class Attention(Attentive):
    """A score and a map as a module; called with query, keys and values it returns what it attended."""

    def __init__(
        self,
        score: str | Score = "scaled_dot",
        map: str | Map = "softmax",
        *,
        scale: float | None = None,
        sink: float | Tensor | None = None,
        groups: int = 1,
        value_term: ValueTerm | None = None,
        dropout: float = 0.0,
        **other: Never,
    ):
        super().__init__()
        if other:
            refuse("Attention", other)
        self.score, self.map = resolve_score(score, scale=scale), resolve_map(map)
        self.sink: float | Tensor | None
        set_sink(self, sink)
        self.groups, self.value_term = groups, value_term
        self.dropout = check_rate("dropout", dropout)

    def forward(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        place: Place | None = None,
        sink: float | Tensor | None = None,
        **other: Never,
    ) -> Attended:
        """Attend with query (..., m, d_q) to keys (..., n, d_k), values (..., n, d_v), as `attend` does.

        A sink given here stands in the place of the module's own.
        """
        dropout = self.dropout if self.training else 0.0
        return attend(
            query,
            keys,
            values,
            score=self.score,
            map=self.map,
            mask=mask,
            place=place,
            sink=self.sink if sink is None else sink,
            groups=self.groups,
            value_term=self.value_term,
            dropout=dropout,
            owner=self,
            **other,
        )

    def extra_repr(self) -> str:
        parts = (("score", self.score), ("map", self.map))
        names = [
            f"{what}={getattr(it, '__name__', it)}" for what, it in parts if not isinstance(it, nn.Module)
        ]
        return ", ".join(names + ([f"dropout={self.dropout}"] if self.dropout else []))
