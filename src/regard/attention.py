"""The three steps of every attention.

    θ = score(q, K)        p = map(θ)        z = p V

The context comes at once, on the fastest backend. Scores and weights come when somebody looks, from the same
query, keys and mask, so looking never changes the answer.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from typing import Any, Never

import torch
from torch import Tensor, nn

from regard.backends.call import Call, ValueTerm
from regard.backends.dispatch import dispatch
from regard.backends.groups import copied, merged, merged_mask, merged_place, split, split_mask, split_place
from regard.backends.plain import plain
from regard.core.errors import ChangedError, ShapeError
from regard.core.foreign_names import refuse
from regard.core.place import Place
from regard.core.recorders import Attentive, attends, change_for, changed_inputs, show
from regard.core.shapes import check, check_float, check_rate, check_together, joined, widened
from regard.kernels.common.operator import is_plain
from regard.maps.table import MAPS, facts_of
from regard.maps.table import Map as MapEntry
from regard.masks import Causal, Mask, as_mask
from regard.masks.mask import grows
from regard.scores import SCORES, ScaledDot

Score = Callable[..., Tensor]
Map = Callable[..., Tensor]
_MADE: dict[str, Score] = {}  # scores without parameters: one serves every call


@dataclass(frozen=True, eq=False, repr=False)
class Attended:
    """What one attention did: the context, and on demand why."""

    context: Tensor  # z: (..., m, d_v)
    _call: Call
    _kept: Tensor | None = None  # weights that cannot be computed again: random maps, interventions
    _versions: tuple[tuple[str, Tensor, int], ...] = ()
    _grad: bool = True  # whether scores and weights are part of the graph
    _known: dict[str, Tensor] = field(default_factory=dict)  # scores and weights that were asked for already
    columns: str = "tokens"  # what the columns of the weights stand for
    _tokens: Tensor | None = (
        None  # (..., columns, n): how much of each token is in a column; None: they are tokens
    )

    @property
    def over_tokens(self) -> Tensor:
        """The weights with a column for each token, (..., m, n): they multiply the values of tokens.

        Where columns are mixtures of tokens (Linformer's projections) these can be negative and need not sum
        to 1; elsewhere they are `weights`.
        """
        if self._tokens is None:
            return self.weights
        with self._looking():
            return self.weights @ self._tokens.to(self.weights.dtype)

    @property
    def query(self) -> Tensor:
        """(..., m, d_q), as the score saw it."""
        return merged(self._call.query, self._call.heads) if self._call.groups > 1 else self._call.query

    @property
    def keys(self) -> Tensor:
        """(..., n, d_k), as the score saw them: hidden ones are 0. Shared keys are copied here."""
        return copied(self._call.keys, self._call.groups) if self._call.groups > 1 else self._call.keys

    @property
    def values(self) -> Tensor:
        """(..., n, d_v), as they were summed: hidden ones are 0. Shared values are copied here."""
        return copied(self._call.values, self._call.groups) if self._call.groups > 1 else self._call.values

    @property
    def mask(self) -> Mask | None:
        """Who may look at what."""
        mask = self._call.mask
        return (
            mask
            if mask is None or self._call.groups == 1
            else merged_mask(mask, self._call.heads, len(self._batch))
        )

    @property
    def visible(self) -> Tensor | None:
        """The mask written out, (..., m or 1, n): True where a query may look; None if there is no mask."""
        visible = self._call.visible(0, self._call.m)
        return visible if visible is None or self._call.groups == 1 else merged(visible, self._call.heads)

    @property
    def place(self) -> Place | None:
        """Where queries and keys stand, as it was given; None: the last m of n places."""
        place = self._call.place
        return place if place is None or self._call.groups == 1 else merged_place(place, self._call.heads)

    @property
    def sink(self) -> Tensor | None:
        """The score of the sink, (..., m or 1); None if there is none."""
        sink = self._call.sink
        return sink if sink is None or self._call.groups == 1 else merged(sink, self._call.heads, -2)

    @property
    def score(self) -> Score:
        """The score θ came from."""
        return self._call.score

    @property
    def map(self) -> Map:
        """The map from scores to weights."""
        return self._call.map

    @property
    def scores(self) -> Tensor:
        """θ: (..., m, n), before the mask; with one more axis if the map has several states per key."""
        if "scores" not in self._known:
            self._unchanged()
            axes = 3 if getattr(self.map, "states", None) else 2
            with self._looking():
                scores = self._call.scores(self._call.visible(0, self._call.m))
            if self._call.groups > 1:
                scores = merged(scores, self._call.heads, -1 - axes)
            self._known["scores"] = self._whole(scores, axes)
        return self._known["scores"]

    @property
    def weights(self) -> Tensor:
        """p: (..., m, n), after any intervention, before dropout; 0 for a query that may look at nothing.

        With a sink they sum to less than 1: what is missing is the weight of the sink.
        """
        if "weights" not in self._known:
            weights = self._kept
            if weights is None:
                self._unchanged()
                with self._looking():
                    weights = plain(replace(self._call, dropout=0.0))[1]
            self._known["weights"] = self._whole(weights)
        return self._known["weights"]

    def __repr__(self) -> str:
        weights = (*self._batch, self._call.m, self._call.n)
        parts = f"map={name_of(self.map)}, score={name_of(self.score)}"
        return f"Attended(context={tuple(self.context.shape)}, weights={weights}, {parts})"

    def __iter__(self) -> Never:
        raise TypeError(
            "an Attended is not a pair: write seen = attention(x), then seen.context and seen.weights."
        )

    def __getattr__(self, name: str) -> Never:
        hint = (
            ""
            if name.startswith("_") or not hasattr(Tensor, name)
            else f"; its context has: seen.context.{name}"
        )
        raise AttributeError(f"an Attended has no {name}{hint}.")

    def __add__(self, other: object) -> Never:
        self.__torch_function__("+", ())

    __radd__ = __add__

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, *_: Any, **__: Any) -> Never:
        raise TypeError(
            f"{getattr(function, '__name__', function)} takes a tensor; got an Attended: write seen.context, "
            "or in nn.Sequential put regard.heads.Context() after the attention."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "Attended":
        copied = {f.name: deepcopy(getattr(self, f.name), memo) for f in fields(self)}
        pairs = zip(copied.pop("_versions"), self._versions, strict=True)  # a copy counts its changes from 0
        versions = ((name, new, new._version - old._version + at) for (name, new, at), (_, old, _) in pairs)
        return Attended(**copied, _versions=tuple(versions))

    @property
    def _batch(self) -> tuple[int, ...]:
        """The axes before (m, n), the last of them heads if these are grouped."""
        batch = self._call.batch
        return batch if self._call.groups == 1 else (*batch[:-2], self._call.heads)

    def _whole(self, x: Tensor, axes: int = 2) -> Tensor:
        return x.expand(*self._batch, *x.shape[-axes:]).to(self._call.query.dtype)

    def detach(self) -> "Attended":
        """The same, cut off from the graph: what is looked at later comes without gradient."""
        call = self._call
        tensors = (call.query, call.keys, call.values)
        cut = {id(t): t.detach() for t in tensors}
        query, keys, values = (cut[id(t)] for t in tensors)
        place = None if call.place is None else call.place.detach()
        score, sink = _without_graph(self.score), None if call.sink is None else call.sink.detach()
        return replace(
            self,
            context=self.context.detach(),
            _call=replace(call, query=query, keys=keys, values=values, place=place, score=score, sink=sink),
            _kept=None if self._kept is None else self._kept.detach(),
            _versions=tuple(  # a detached tensor counts the same changes
                (name, cut.get(id(t), t.detach() if t.requires_grad else t), version)
                for name, t, version in self._versions
            ),
            _grad=False,
            _known={},
            _tokens=None if self._tokens is None else self._tokens.detach(),
        )

    @contextmanager
    def _looking(self) -> Iterator[None]:
        with torch.set_grad_enabled(self._grad and torch.is_grad_enabled()), exact(self._call.query):
            yield

    def _unchanged(self) -> None:
        for name, tensor, version in self._versions:
            if tensor._version != version:
                raise ChangedError(
                    f"{name} changed in place after the attention was computed, so its weights can no longer "
                    "be seen. Look (seen.weights) before the change, or give the attention a copy."
                )


def _without_graph(score: Score) -> Score:
    """The score itself; if it has buffers with a graph (a computed bias), one with these detached."""
    buffers = list(score.buffers()) if isinstance(score, nn.Module) else []
    if not isinstance(score, nn.Module) or not any(b.grad_fn is not None for b in buffers):
        return score
    memo: dict[int, Any] = {id(p): p for p in score.parameters()}
    return deepcopy(score, memo | {id(b): b.detach() for b in buffers})


def name_of(part: Score | Map) -> str:
    """The name of a score or a map as the tables have it: "scaled_dot" of a ScaledDot."""
    while isinstance(part, partial):
        part = part.func
    name = getattr(part, "__name__", None) or type(part).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name)).lower()


def concat_steps(calls: Sequence[Attended]) -> Attended:
    """Calls of one attention with the same keys, a query or more in each, as if it had been one call."""
    if len(calls) == 1:
        return calls[0]
    known = {name: torch.cat([getattr(one, name) for one in calls], -2) for name in ("scores", "weights")}
    call = replace(calls[0]._call, query=torch.cat([one._call.query for one in calls], -2))
    return replace(calls[0], context=torch.cat([one.context for one in calls], -2), _call=call, _known=known)


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
    query, keys, values = _checked(query, keys, values, groups)
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
) -> Attended:
    """Attend with what has been checked and cleaned; `then` is applied to the context (the heads' output).

    With groups the query has `heads` heads, keys and values have heads / groups; all else is for `heads`.
    """
    query, keys, values = changed_inputs(owner, query, keys, values)
    added = None if sink is None else _sink(sink, query, map)
    if groups > 1:
        query, keys, values = split(query, groups), *(split(t, groups, shared=True) for t in (keys, values))
        mask, place = mask and split_mask(mask, groups, query.dim() - 3), place and split_place(place, groups)
        sees, added = (t if t is None else split(t, groups, -2) for t in (sees, added))
    call = Call(
        query, keys, values, score, map, mask, sees, place, dropout, change_for(owner), added, groups,
        value_term
    )  # fmt: skip
    if mask is not None and _acts_on_matrix(map) and _is_causal(call, mask):
        raise ValueError(
            "a map that acts on the whole matrix lets every row see all others: it takes no Causal mask, "
            "nor a boolean one under which queries see more and more keys."
        )
    with exact(query):
        context, kept = dispatch(call.canonical())
    context = context.to(query.dtype)
    if groups > 1:
        context = merged(context, call.heads)
    attended = Attended(context if then is None else then(context), call, kept, versions(call))
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
        **other: Never,
    ) -> Attended:
        """Attend with query (..., m, d_q) to keys (..., n, d_k), values (..., n, d_v), as `attend` does."""
        dropout = self.dropout if self.training else 0.0
        return attend(
            query,
            keys,
            values,
            score=self.score,
            map=self.map,
            mask=mask,
            place=place,
            sink=self.sink,
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


def resolve_map(map: str | Map) -> Map:
    """A map by name or as it is."""
    if isinstance(map, str):
        return MAPS[map].function
    _refuse_class("map", map)
    if not callable(map):
        raise TypeError(f"map must be a name from regard.MAPS or a callable; got {type(map).__name__}.")
    return map.function if isinstance(map, MapEntry) else map


def resolve_score(
    score: str | Score, d_q: int | None = None, d_k: int | None = None, *, scale: float | None = None
) -> Score:
    """A score by name or as it is; one with parameters needs the widths; a scale is for the scaled dot."""
    if scale is not None:
        if score != "scaled_dot":
            raise ValueError(
                'scale is the factor of score="scaled_dot"; for another score use '
                "regard.scores.Temperature(score, 1 / scale)."
            )
        return _scaled(scale)
    if isinstance(score, str):
        entry = SCORES[score]
        if d_q is not None and d_k is not None:
            return entry.make(d_q, d_k)
        if entry.learned:
            kind = entry.kind.__name__
            raise ValueError(
                f'score "{score}" has parameters, so it must be built: score=regard.scores.{kind}(d_q, d_k).'
            )
        if score not in _MADE:
            _MADE[score] = entry.make(0, 0)
        return _MADE[score]
    _refuse_class("score", score)
    if not callable(score):
        raise TypeError(f"score must be a name from regard.SCORES or a callable; got {type(score).__name__}.")
    return score


@lru_cache(64)
def _scaled(scale: float) -> Score:
    return ScaledDot(scale)


def set_sink(module: nn.Module, sink: float | Tensor | None) -> None:
    """Give a module its sink: a parameter is learned, another tensor a buffer, a number fixed."""
    if isinstance(sink, bool):
        raise TypeError(
            "sink must be a number, or a score for each head: sink=0.0 is softmax plus one, "
            "sink=nn.Parameter(torch.zeros(heads)) is learned."
        )
    if isinstance(sink, Tensor) and not isinstance(sink, nn.Parameter):
        module.register_buffer("sink", sink)
    else:
        module.sink = sink  # type: ignore[assignment]


def _sink(sink: float | Tensor, query: Tensor, map: Map) -> Tensor:
    """The sink as a tensor (..., m or 1), where a sink has a meaning."""
    facts = facts_of(map)
    if facts is not None and (
        facts.acts_on == "matrix" or facts.neighbours or not facts.simplex or getattr(map, "states", None)
    ):
        why = (
            "acts on whole matrices" if facts.acts_on == "matrix"
            else "has no weight of 1 to share out" if not facts.simplex
            else "depends on the order of the keys"
        )  # fmt: skip
        raise ValueError(f"a sink is one more key without a place: {facts.name} {why}, so it takes none.")
    if not isinstance(sink, Tensor):
        return torch.full((1,), sink, dtype=widened(query).dtype, device=query.device)
    check_float("sink", sink)
    found = sink.unsqueeze(-1) if sink.dim() == 1 else sink.reshape(1) if sink.dim() == 0 else sink
    wanted = query.shape[:-1]
    if found.dim() > len(wanted) or any(
        a not in (1, b) for a, b in zip(reversed(found.shape), reversed(wanted), strict=False)
    ):
        raise ShapeError(
            f"sink must be a number, one for each head (heads,), or broadcast to (..., heads, m) = "
            f"{tuple(wanted)}; got {tuple(sink.shape)}."
        )
    return found


def by_any_of_group(seen: Tensor | None, groups: int) -> Tensor | None:
    """Keys visible to any head of those that share them: (..., heads or 1, k) to (..., kv or 1, k)."""
    if seen is None or groups == 1 or seen.dim() < 2 or seen.shape[-2] == 1:
        return seen
    return split(seen, groups, -2).any(-2)


def _refuse_class(what: str, part: Any) -> None:
    if isinstance(part, type):
        raise TypeError(
            f"{what} must be made, not the class: {what}={part.__name__}(...); got the class {part.__name__}."
        )


def _checked(query: Tensor, keys: Tensor, values: Tensor, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    alike = _alike(query, keys, values, groups)
    if alike in _CHECKED:
        return query, keys, values
    for name, tensor in (("query", query), ("keys", keys), ("values", values)):
        check_float(name, tensor)
    if _autocast(query):
        query, keys, values = _promoted(query, keys, values)
    check_together(query=query, keys=keys, values=values)
    check("query", query, "... m d_q")
    check("keys", keys, "... n d_k")
    check("values", values, "... n d_v", n=keys.shape[-2])
    if groups == 1:
        _check_batch(query, keys, values)
    else:
        _check_groups(query, keys, values, groups)
    if alike is not None:
        if len(_CHECKED) > 4096:
            _CHECKED.clear()
        _CHECKED.add(alike)
    return query, keys, values


def _check_batch(query: Tensor, keys: Tensor, values: Tensor) -> None:
    try:
        joined(query.shape[:-2], keys.shape[:-2], values.shape[:-2])
    except RuntimeError:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, keys, values))
        hint = ""
        if query.dim() > 2 < keys.dim() and query.shape[-3] % keys.shape[-3] == 0:
            hint = f" If heads share keys, write groups={query.shape[-3] // keys.shape[-3]}."
        raise ShapeError(
            f"the axes before the last two of query, keys and values must broadcast; got {shapes}.{hint}"
        ) from None


def _check_groups(query: Tensor, keys: Tensor, values: Tensor, groups: int) -> None:
    ok = groups > 1 and min(t.dim() for t in (query, keys, values)) > 2
    if ok:
        for shared in (keys, values):
            ok = ok and shared.shape[-3] * groups == query.shape[-3] and shared.shape[:-3] == query.shape[:-3]
    if not ok:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, keys, values))
        raise ShapeError(
            f"with groups={groups} the query must be (..., heads, m, d_q), keys and values "
            f"(..., heads / groups, n, ·) with the same axes before; got {shapes}."
        )


_CHECKED: set[Any] = (
    set()
)  # shapes of plain tensors of one dtype that were found right: decoding repeats them


def _alike(query: Tensor, keys: Tensor, values: Tensor, groups: int) -> Any:
    """What the checks depend on; None where it may be more: a device, a subclass, a tracer, autocast."""
    if not (type(query) is type(keys) is type(values) is Tensor) or torch.compiler.is_compiling():
        return None
    if not (query.is_cpu and keys.is_cpu and values.is_cpu) or not query.dtype == keys.dtype == values.dtype:
        return None
    if torch.is_autocast_enabled("cpu") or torch._C._get_tracing_state() is not None:
        return None
    return query.dtype, query.shape, keys.shape, values.shape, groups


def zeroed(tensor: Tensor, seen: Tensor | None) -> Tensor:
    """The tensor (..., k, d) with 0 in the rows nobody sees; seen (..., k or 1), or None for all.

    Done before score and projection, so that no gradient, of inputs or of parameters, meets what is hidden.
    """
    if seen is None:
        return tensor
    while seen.dim() > tensor.dim() - 1:
        seen = seen.any(0)
    for axis in range(2, seen.dim() + 1):
        if tensor.shape[-axis - 1] == 1 and seen.shape[-axis] > 1:
            seen = seen.any(-axis, keepdim=True)
    return torch.where(seen.unsqueeze(-1), tensor, 0)


def _is_causal(call: Call, mask: Mask) -> bool:
    if any(isinstance(part, Causal) for part in mask.parts()):
        return True
    return is_plain(call.query) and grows(mask, call.m, call.n, len(call.batch), call.query.device)


def _acts_on_matrix(map: Map) -> bool:
    facts = facts_of(map)
    return facts is not None and facts.acts_on == "matrix"


def versions(call: Call) -> tuple[tuple[str, Tensor, int], ...]:
    """What the weights depend on, and how often each had been changed in place."""
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
        return ()
    named = [("query", call.query), ("keys", call.keys)]
    named += [] if call.sink is None else [("sink", call.sink)]
    for what, module in (("the score's ", call.score), ("the map's ", call.map)):
        if isinstance(module, nn.Module):
            named += [(what + name, p) for name, p in module.named_parameters()]
    for part in call.mask.parts() if call.mask is not None else ():
        named += [("mask", t) for t in vars(part).values() if isinstance(t, Tensor)]
    return tuple((name, t, t._version) for name, t in named if not t.is_inference())


def _autocast(tensor: Tensor) -> bool:
    return not tensor.is_meta and torch.is_autocast_enabled(tensor.device.type)


def _promoted(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast some come in half precision and some not: all as the widest."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return tuple(t.to(dtype) for t in tensors)


def exact(tensor: Tensor) -> AbstractContextManager[Any]:
    """Autocast off: half precision is widened here, not the other way round."""
    return torch.autocast(tensor.device.type, enabled=False) if _autocast(tensor) else nullcontext()
