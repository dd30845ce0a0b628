"""Multi-head attention: several attentions in parallel, each with its own projections.

    z = W_o [z₁; …; z_h],    z_i = attend(W_q⁽ⁱ⁾x, W_k⁽ⁱ⁾y, W_v⁽ⁱ⁾y)

The projections go from width to width and are then split into heads. (The code in one lecture projects to a
single head's width and splits that: it fails unless the heads divide the length, and then mixes positions.)

Vaswani et al. (2017), arXiv:1706.03762, §3.2.2. Fewer key/value heads than query heads: Ainslie et al.
(2023), "GQA", arXiv:2305.13245.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Never

import torch
from torch import Tensor, nn

from regard.attention import Attended, by_any_of_group, resolve_map, resolve_score, run, set_sink, zeroed
from regard.backends.branching import branching
from regard.backends.call import Call, ValueTerm
from regard.backends.groups import split
from regard.core import recorders
from regard.core.errors import ShapeError
from regard.core.foreign_names import refuse
from regard.core.place import Place
from regard.core.recorders import Attentive, intervened, show
from regard.core.shapes import check, check_rate
from regard.maps.table import facts_of
from regard.masks import Causal, Mask, Window, as_mask
from regard.masks.mask import Given
from regard.memories import Branches, KeyValue, cache_for
from regard.scores import Score

SMALL = 0.5  # initial gain of queries and keys for sparse maps: a key of weight 0 gets no gradient


class MultiHead(Attentive):
    """Attention with `heads` heads over inputs of this width; fewer `key_value_heads` are shared, not copied.

    sink=True learns for each head the score of a key without value; sink=0.0 is softmax plus one. `scale` is
    the factor of the scaled dot product; `value_term` is as in `attend`.
    """

    def __init__(
        self,
        width: int = 0,  # must be given
        heads: int = 8,
        *,
        key_width: int | None = None,
        value_width: int | None = None,
        key_value_heads: int | None = None,
        score: str | Callable[..., Tensor] = "scaled_dot",
        map: str | Callable[..., Tensor] = "softmax",
        scale: float | None = None,
        sink: bool | float = False,
        value_term: ValueTerm | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        **other: Never,
    ):
        super().__init__()
        if other:
            refuse("MultiHead", other)
        shared = heads if key_value_heads is None else key_value_heads
        if width < 1:
            raise ValueError(f"width must be at least 1: MultiHead(width, heads); got {width}.")
        if heads < 1 or width % heads:
            raise ValueError(f"heads must divide the width; got width={width}, heads={heads}.")
        if shared < 1 or heads % shared:
            raise ValueError(
                f"key_value_heads must divide heads; got heads={heads}, key_value_heads={shared}."
            )
        self.width, self.heads, self.key_value_heads = width, heads, shared
        self.dropout = check_rate("dropout", dropout)
        each = width // heads
        self.key_width, self.value_width = key_width or width, value_width or width
        self.W_q = nn.Linear(width, width, bias=bias)
        self.W_k = nn.Linear(self.key_width, shared * each, bias=bias)
        self.W_v = nn.Linear(self.value_width, shared * each, bias=bias)
        self.W_o = nn.Linear(width, width, bias=bias)
        self.score, self.map = resolve_score(score, each, each, scale=scale), resolve_map(map)
        self.groups, self.value_term = heads // shared, value_term
        self.sink: float | Tensor | None
        learned = nn.Parameter(torch.zeros(heads)) if sink is True else None
        set_sink(self, learned if isinstance(sink, bool) else sink)
        facts = facts_of(self.map)
        gain = SMALL if facts is not None and facts.sparse else 1.0
        for layer in (self.W_q, self.W_k):
            nn.init.xavier_uniform_(layer.weight, gain)
        nn.init.xavier_uniform_(self.W_v.weight)
        for layer in (self.W_q, self.W_k, self.W_v, self.W_o):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        query: Tensor,
        keys: Tensor | None = None,
        values: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        place: Place | None = None,
        cache: KeyValue | None = None,
        **other: Never,
    ) -> Attended:
        """Attend with query (..., m, width) to keys (..., n, key_width) and values: context (..., m, width).

        Keys default to the query (self-attention), values to the keys. The weights are (..., heads, m, n),
        and a mask broadcasts to that: (m, n), (b, 1, m, n), (b, h, m, n). With a cache, keys and values are
        appended to it (or, if it does not grow, read from it once it is filled), and n counts all of them.

        Without a `place`, queries of self-attention, and under `Causal` or `Window`, are the last m of n
        positions; otherwise queries and keys are two sequences, each counted from 0.
        """
        if other:
            refuse("MultiHead", other)
        keys = query if keys is None else keys
        values = keys if values is None else values
        check("query", query, "... m width", width=self.width)
        check("keys", keys, "... n key_width", key_width=self.key_width)
        check("values", values, "... n value_width", value_width=self.value_width)
        mask, sees, own = None if mask is None else as_mask(mask), None, keys is query
        across = keys is not query and not (
            mask and any(isinstance(p, Causal | Window) for p in mask.parts())
        )
        if mask is not None and cache is None:
            self._check_mask(mask, query.shape[:-2], query.shape[-2], keys.shape[-2])
            seen, sees = mask.seen(query.shape[-2], keys.shape[-2], query.dim() - 1, query.device)
            query, keys, values = (
                zeroed(query, by_any_head(sees)),
                zeroed(keys, by_any_head(seen)),
                zeroed(values, by_any_head(seen)),
            )
        q = self._split(self.W_q(query), self.heads)  # (..., heads, m, each)
        k, v = self._projected(keys, values, cache, place)  # (..., key_value_heads, n, each)
        if mask is not None and cache is not None:  # masked now, maybe not later: zero after the projection
            self._check_mask(mask, query.shape[:-2], q.shape[-2], k.shape[-2])
            seen, sees = mask.seen(q.shape[-2], k.shape[-2], q.dim() - 2, q.device)
            seen = by_any_of_group(seen, self.groups)
            q, (k, v) = zeroed(q, sees), (k, v) if cache.clean else (zeroed(k, seen), zeroed(v, seen))
        if place is None and across:
            lengths = None if mask is None else mask.lengths()
            i, j = (torch.arange(size, device=q.device) for size in (q.shape[-2], k.shape[-2]))
            place = Place(i, j, lengths, shift=0)
        if cache is not None and cache.encoded:
            lengths = None if mask is None else mask.lengths()
            place = place or Place.default(q.shape[-2], k.shape[-2], q.device, lengths)
            place = replace(place, encoded=True)
        return self._run(q, k, v, mask, sees, place, cache, (query, keys, values) if not own else (query,))

    def _run(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, sees: Tensor | None, place: Place | None,
        cache: KeyValue | None, inputs: tuple[Tensor, ...],
    ) -> Attended:  # fmt: skip
        """Attend with what is projected and cleaned; `inputs` are those before, one in self-attention."""
        dropout = self.dropout if self.training else 0.0
        return run(
            q, k, v, self.score, self.map, mask, sees, place, dropout, self, self._joined,
            sink=self.sink, groups=self.groups, value_term=self.value_term,
            codes=None if cache is None else cache.codes,
        )  # fmt: skip

    def new_cache(self) -> KeyValue:
        """An empty cache for the keys and values of this attention: with codes, if its map is sparse."""
        return cache_for(self.map)

    def step(self, x: Tensor, past: Branches, layer: int) -> Tensor:
        """Self-attention of the next position of r hypotheses, x (r, 1, width): its context (r, 1, width).

        `past` has already grown by that position; its keys and values in this layer are written here.
        """
        check("x", x, "r m width", m=1, width=self.width)
        q = self._split(self.W_q(x), self.heads)  # (r, heads, 1, each)
        k, v = (W(x).view(len(x), self.key_value_heads, -1) for W in (self.W_k, self.W_v))
        place, t = None, len(past)
        turned = self._encoded(k.unsqueeze(-2), range(t - 1, t))
        if turned is not None:
            k, place = turned.squeeze(-2), Place.default(1, t, x.device, encoded=True)
        written = past.write(layer, k, v)
        dropout = self.dropout if self.training else 0.0
        context = None
        if self.sink is None and self.value_term is None and not dropout and not intervened(self):
            context = branching(q, *written, past.ancestors, self.score, self.map, place)
        if context is not None and not recorders.active:
            return self._joined(context)
        keys, values = past.of(layer)
        if context is None:
            seen = run(
                q, keys, values, self.score, self.map, None, None, place, dropout, self, self._joined,
                sink=self.sink, groups=self.groups, value_term=self.value_term,
            )  # fmt: skip
            return seen.context
        joined = self._joined(context)
        if self.groups > 1:
            q, keys, values = (
                split(q, self.groups),
                *(split(t, self.groups, shared=True) for t in (keys, values)),
            )
        call = Call(q, keys, values, self.score, self.map, None, None, place, groups=self.groups)
        show(self, Attended(joined, call))
        return joined

    def project(
        self, keys: Tensor, values: Tensor | None = None, *, mask: Mask | Tensor | None = None
    ) -> KeyValue:
        """Project keys (..., n, key_width) and values once, into a cache that does not grow.

        The mask must be the same for every query, and be given to `forward` too; masked keys are zeroed here.
        """
        values = keys if values is None else values
        if mask is not None:
            seen, _ = as_mask(mask).seen(1, keys.shape[-2], keys.dim() - 1, keys.device)
            keys, values = zeroed(keys, by_any_head(seen)), zeroed(values, by_any_head(seen))
        cache = cache_for(self.map, grows=False, clean=mask is not None)
        self._projected(keys, values, cache, None)
        return cache

    def _check_mask(self, mask: Mask, batch: torch.Size, m: int, n: int) -> None:
        mask.check((*batch, self.heads), m, n)
        for part in mask.parts():
            if not isinstance(part, Given) or part.allowed.dim() != 3 or len(batch) != 1:
                continue
            if part.allowed.shape[0] == batch[0] == self.heads > 1:
                raise ShapeError(
                    f"mask {tuple(part.allowed.shape)} could be one for each of {self.heads} sequences or of "
                    f"{self.heads} heads: write mask[:, None] for sequences, mask[None] for heads."
                )

    def _projected(
        self, keys: Tensor, values: Tensor, cache: KeyValue | None, place: Place | None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values (..., key_value_heads, n, each), those of the cache included.

        A growing cache holds keys as the score has them at their positions, if these are final: rotary
        positions turn a key once, when it comes.
        """
        if cache is not None and not cache.grows and len(cache):
            return cache.keys, cache.values
        k = self._split(self.W_k(keys), self.key_value_heads)
        v = self._split(self.W_v(values), self.key_value_heads)
        if cache is None:
            return k, v
        if cache.grows and (cache.encoded or not len(cache)):
            start, stop = len(cache), len(cache) + k.shape[-2]
            given = place is not None and place.shift is None
            turned = self._encoded(k, place.keys[..., start:stop] if place and given else range(start, stop))
            cache.encoded = turned is not None
            k = k if turned is None else turned
        return cache.append(k, v)

    def _encoded(self, keys: Tensor, positions: Tensor | range) -> Tensor | None:
        return self.score.encoded(keys, positions) if isinstance(self.score, Score) else None

    def _joined(self, context: Tensor) -> Tensor:
        joined: Tensor = self.W_o(context.transpose(-3, -2).flatten(-2))
        return joined

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-3, -2)

    def extra_repr(self) -> str:
        name = "" if isinstance(self.map, nn.Module) else f", map={getattr(self.map, '__name__', self.map)}"
        return f"width={self.width}, heads={self.heads}{name}"


def by_any_head(seen: Tensor | None) -> Tensor | None:
    """Visible to any head: (..., heads or 1, k) to (..., k)."""
    return seen if seen is None or seen.dim() < 2 else seen.any(-2)
