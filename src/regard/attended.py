"""What one attention did: its context, and on demand the scores and weights it came from.

Scores and weights are computed from the same query, keys and mask, so looking never changes the answer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any, Never

import torch
from torch import Tensor, nn

from regard.backends.call import Call
from regard.backends.groups import copied, merged, merged_mask, merged_place
from regard.backends.plain import plain
from regard.core.attention_inputs import exact
from regard.core.errors import ChangedError
from regard.core.names import name_of
from regard.core.place import Place
from regard.masks import Mask

Score = Callable[..., Tensor]
Map = Callable[..., Tensor]


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
        None  # (..., columns, n): what of each token is in a column; None: all of its own
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

    def __getitem__(self, item: object) -> Never:
        self.__iter__()

    def __getattr__(self, name: str) -> Never:
        hint = (
            ""
            if name.startswith("_") or not hasattr(Tensor, name)
            else f"; its context has: seen.context.{name}"
        )
        raise AttributeError(f"an Attended has no {name}{hint}.")

    def _no_tensor(self, *other: object) -> Never:
        self.__torch_function__("arithmetic", ())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _no_tensor
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _no_tensor

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


def concat_steps(calls: Sequence[Attended]) -> Attended:
    """Calls of one attention with the same keys, a query or more in each, as if it had been one call."""
    if len(calls) == 1:
        return calls[0]
    known = {name: torch.cat([getattr(one, name) for one in calls], -2) for name in ("scores", "weights")}
    call = replace(calls[0]._call, query=torch.cat([one._call.query for one in calls], -2))
    return replace(calls[0], context=torch.cat([one.context for one in calls], -2), _call=call, _known=known)


def versions_of(call: Call) -> tuple[tuple[str, Tensor, int], ...]:
    """What the weights depend on, and how often each had been changed in place."""
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
        return ()
    named = [("query", call.query), ("keys", call.keys)]
    named += [] if call.sink is None else [("sink", call.sink)]
    for what, module in (("the score's ", call.score), ("the map's ", call.map)):
        if isinstance(module, nn.Module):
            named += [(what + name, p) for name, p in (*module.named_parameters(), *module.named_buffers())]
    for part in call.mask.parts() if call.mask is not None else ():
        named += [("mask", t) for t in vars(part).values() if isinstance(t, Tensor)]
    return tuple((name, t, t._version) for name, t in named if not t.is_inference())
