"""Reformer: tokens are hashed into buckets, and a query sees the keys of its bucket.

    bucket(x) = argmax [x R; −x R], R random        θᵢⱼ = qᵢ · kⱼ / √d,   kⱼ = qⱼ / ‖qⱼ‖

Keys are the queries, of unit length. Each of several rounds has rotations R of its own; a key seen in two
rounds counts once. A query sees itself only if it sees nothing else. Buckets are cut into chunks by rank; a
query sees its own chunk, the one before and, unless causal, the one after. Ranks depend on earlier tokens
alone, so that no later token changes what an earlier one sees. Padding has a bucket of its own. Many buckets
are hashed by two rotations, √ of their number each: the cost is about n · chunk · d.

Rotations are drawn when the module is made (setting `seed`), kept with its weights, and drawn again only by
`redraw(seed)`. Without `buckets` their number is that of real tokens / chunk; under a causal mask, where it
must not depend on the length, it is 16. With one bucket it is full attention with shared keys of unit length
and oneself only if nothing else.

`Attended.weights` are (..., heads, m, n), of the union over rounds, 0 outside the buckets.

Kitaev, Kaiser & Levskaya (2020), "Reformer: The Efficient Transformer", arXiv:2001.04451, §2.
Departs from the paper: chunks are of ranks within a bucket, since chunks of the sorted sequence let later
tokens decide what earlier ones see; layers are not reversible.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.backends.call import Call
from regard.core.place import Place
from regard.core.shapes import widened
from regard.masks import Mask
from regard.mechanisms.mechanism import Core, Heads, Mechanism, at_least_one, joined, register
from regard.scores.score import Factored

CAUSAL = 16  # buckets, where their number must not depend on the length
MOST = 64  # columns of a rotation
LOWEST = -1e30


class UnitKeys(Factored):
    """The factors of a score, those of the keys of unit length."""

    def __init__(self, inner: Factored):
        super().__init__()
        self.inner, self.uses_place = inner, inner.uses_place

    def factors(self, query: Tensor, keys: Tensor, *place: Place) -> tuple[Tensor, Tensor]:
        a, b = self.inner.factors(query, keys, *place)
        return a, F.normalize(b, dim=-1)

    def encoded(self, keys: Tensor, positions: Tensor | range) -> Tensor | None:
        return self.inner.encoded(keys, positions)


@dataclass(frozen=True, eq=False)
class Hashed:
    """Bucket and chunk of every key in every round, (..., rounds, n); a chunk is of ranks in the bucket."""

    bucket: Tensor
    rank: Tensor
    chunk: int

    @property
    def block(self) -> Tensor:
        """The chunk of each key within its bucket."""
        return self.rank // self.chunk


class Buckets(Mask):
    """What a query sees by hashing; oneself only if nothing else."""

    def __init__(self, hashed: Hashed, causal: bool, shown: Tensor | None):
        self.bucket, self.block = hashed.bucket, hashed.block
        self.causal, self.shown = causal, shown

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        i, j = torch.arange(n - m + start, n - m + stop, device=device), torch.arange(n, device=device)
        seen = torch.zeros(1, dtype=torch.bool, device=device)
        for r in range(self.bucket.shape[-2]):
            bucket, block = self.bucket[..., r, :], self.block[..., r, :]
            away = block[..., i].unsqueeze(-1) - block.unsqueeze(-2)
            near = (away >= 0) & (away <= 1) if self.causal else away.abs() <= 1
            seen = seen | (near & (bucket[..., i].unsqueeze(-1) == bucket.unsqueeze(-2)))
        seen = seen & (j <= i.unsqueeze(-1)) if self.causal else seen
        seen = seen if self.shown is None else seen & self.shown
        itself = j == i.unsqueeze(-1)
        other = seen & ~itself
        alone = ~other.any(-1, keepdim=True)
        return other | (seen & itself & alone)


class ReformerCore(Core):
    """Attention within buckets."""

    R: Tensor

    def __init__(
        self,
        each: int,
        heads: int,
        *,
        chunk: int = 32,
        rounds: int = 2,
        buckets: int | None = None,
        seed: int = 0,
    ):
        super().__init__(each, heads)
        at_least_one(self.name, chunk=chunk, rounds=rounds, buckets=1 if buckets is None else buckets)
        self.chunk, self.rounds, self.buckets, self.seed = chunk, rounds, buckets, seed
        self.register_buffer("R", self.drawn(seed))

    def drawn(self, seed: int) -> Tensor:
        """Rotations of two factors in every round, (2, rounds, each, columns)."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(2, self.rounds, self.each, MOST, generator=generator)

    def wrapped(self, score: Callable[..., Tensor]) -> Callable[..., Tensor]:
        assert isinstance(score, Factored)
        return UnitKeys(score)

    def hashed(self, keys: Tensor, causal: bool, shown: Tensor | None) -> Hashed:
        """The buckets of keys (..., heads, n, each) of unit length."""
        n = keys.shape[-2]
        chunk = n if self.buckets == 1 else self.chunk
        size: Tensor | int  # of a factor: buckets are its square
        if self.buckets is not None or causal or shown is None:
            count = self.buckets or (CAUSAL if causal else n / chunk)
            size = _even(count)
            most = size
        else:
            length = shown.sum(-1)  # (..., 1)
            size = _even_each(length / chunk).unsqueeze(-1)
            most = int(size.max())
        codes = []
        with torch.no_grad():
            for R in self.R[..., : max(most // 2, 1)].to(keys.dtype):
                turned = keys.detach().unsqueeze(-3) @ R  # (..., rounds, n, columns)
                both = torch.cat([turned, -turned], -1)
                if isinstance(size, Tensor):
                    column = torch.arange(most // 2 or 1, device=keys.device).repeat(2)
                    both = both.masked_fill(column >= (size // 2).clamp(min=1).unsqueeze(-1), -torch.inf)
                codes.append(both.argmax(-1))
            bucket = codes[0] * (2 * MOST) + codes[1]
            one = size <= 1 if isinstance(size, Tensor) else torch.tensor(size <= 1, device=keys.device)
            bucket = torch.where(one, 0, bucket)
            if shown is not None:  # hidden keys have a bucket of their own
                bucket = torch.where(shown, bucket, 4 * MOST * MOST)
            sorted_, order = bucket.sort(dim=-1, stable=True)
            first = torch.searchsorted(sorted_, sorted_)
            at = torch.arange(n, device=keys.device) - first
            rank = torch.empty_like(order).scatter_(-1, order, at)
        return Hashed(bucket, rank, max(chunk, 1))

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        call = heads.call
        if heads.whole:  # queries and keys are the same vectors
            query = call.query if shown is None else torch.where(shown.mT, call.query, 0)
            call = replace(call, query=query, keys=call.keys if heads.cached else query)
        _, b = self.factors(call)
        mask = joined(Buckets(self.hashed(b, causal, shown), causal, shown), call.mask)
        return replace(call, mask=mask)

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        a, b = self.factors(call)
        m, n, batch = call.m, call.n, call.batch
        hashed = self.hashed(b, causal, shown)
        v = widened(call.values)
        a = F.pad(a, (0, 0, n - m, 0))
        a, b, v = (t.expand(*batch, *t.shape[-2:]).reshape(prod(batch), n, -1) for t in (a, b, v))
        bucket, rank = (
            t.expand(*batch, -1, n).reshape(prod(batch), -1, n) for t in (hashed.bucket, hashed.rank)
        )
        kept = None
        if shown is not None:
            kept = shown.squeeze(-2).expand(*batch, n).reshape(prod(batch), n)
        found = _within(a, b, v, Hashed(bucket, rank, hashed.chunk), causal, kept)
        return found.reshape(*batch, n, -1)[..., n - m :, :]

    def extra_repr(self) -> str:
        return f"chunk={self.chunk}, rounds={self.rounds}, buckets={self.buckets}, seed={self.seed}"


def _within(a: Tensor, b: Tensor, v: Tensor, hashed: Hashed, causal: bool, kept: Tensor | None) -> Tensor:
    """The context (g, n, d) of attention within buckets; all (g, n, ·), buckets and ranks (g, rounds, n)."""
    g, rounds, n = hashed.bucket.shape
    size, block = hashed.chunk, hashed.block
    with torch.no_grad():
        # Chunks of one bucket after another: the number of the chunk of each token, counted over all buckets.
        order = (hashed.bucket * n + hashed.rank).argsort(-1)
        opens = (hashed.rank.gather(-1, order) % size == 0).long()
        number = torch.empty_like(order).scatter_(-1, order, opens.cumsum(-1) - 1)  # (g, rounds, n)
        count = int(number.max()) + 1
        slot = number * size + hashed.rank % size
        token = a.new_full((g, rounds, count * size), -1, dtype=torch.long)
        token.scatter_(-1, slot, torch.arange(n, device=a.device).expand_as(slot))
        empty, at = token < 0, token.clamp(min=0)
    rows = torch.arange(g, device=a.device).reshape(g, 1, 1)

    def chunks(x: Tensor) -> Tensor:
        found: Tensor = x[rows, at].unflatten(2, (count, size))  # (g, rounds, chunks, size, ·)
        return found

    query, keys, values = chunks(a), chunks(b), chunks(v)
    reach = (-1, 0) if causal else (-1, 0, 1)
    keys, values = (torch.cat([_shifted(t, by) for by in reach], 3) for t in (keys, values))
    with torch.no_grad():
        places = at.masked_fill(empty, -1).unflatten(2, (count, size)).unsqueeze(-1)
        i, j = places, torch.cat([_shifted(places, by, -1) for by in reach], 3).mT
        seen = (i >= 0) & (j >= 0) & (i != j)
        seen &= (j <= i) if causal else True
        again = torch.zeros(seen.shape, dtype=torch.int8, device=a.device)
        for r in range(rounds):  # in how many rounds a pair meets
            code = [
                t[:, r][rows, at].unflatten(2, (count, size)).unsqueeze(-1) for t in (hashed.bucket, block)
            ]
            near = [torch.cat([_shifted(t, by, -1) for by in reach], 3).mT for t in code]
            away = code[1] - near[1]
            meets = (code[0] == near[0]) & ((away >= 0) & (away <= 1) if causal else away.abs() <= 1)
            again += meets
        own = hashed.bucket.gather(-1, at).unflatten(2, (count, size)).unsqueeze(-1)
        seen &= own == torch.cat([_shifted(own, by, -1) for by in reach], 3).mT
        if kept is not None:
            hidden = (~kept)[rows, at].unflatten(2, (count, size)).unsqueeze(-1)
            seen &= ~torch.cat([_shifted(hidden, by, 1) for by in reach], 3).mT
        less = torch.where(seen, again.clamp(min=1).to(a.dtype).log(), torch.inf)
    theta = query @ keys.mT - less  # (g, rounds, chunks, size, 2 or 3 · size)
    top = theta.detach().amax(-1, keepdim=True).clamp(min=LOWEST)
    p = (theta - top).exp()
    total, sums = p.sum(-1, keepdim=True), p @ values
    back = slot.unsqueeze(-1)  # from chunks to tokens

    def tokens(x: Tensor) -> Tensor:
        flat = x.flatten(2, 3)
        return flat.gather(2, back.expand(*back.shape[:-1], flat.shape[-1]))  # (g, rounds, n, ·)

    most = tokens(top)
    scale = (most - most.amax(1, keepdim=True)).exp()
    weight, found = (tokens(total) * scale).sum(1), (tokens(sums) * scale).sum(1)
    alone = weight == 0
    itself = v if kept is None else torch.where(kept.unsqueeze(-1), v, 0)
    return torch.where(alone, itself, found / torch.where(alone, 1, weight))


@register()
class Reformer(Mechanism):
    """Multi-head attention within buckets; W_k is W_q."""

    core_kind = ReformerCore

    def __init__(self, width: int, heads: int = 8, **settings: Any):
        super().__init__(width, heads, **settings)
        self.W_k = self.W_q

    def redraw(self, seed: int) -> None:
        """Draw other rotations."""
        assert isinstance(self.core, ReformerCore)
        self.core.R.copy_(self.core.drawn(seed))


def _even(count: float) -> int:
    """The size of each of two factors of about so many buckets: even, or 1 for a single bucket."""
    return 1 if count <= 1 else min(2 * ceil(count**0.5 / 2), 2 * MOST)


def _even_each(count: Tensor) -> Tensor:
    found = (2 * (count.sqrt() / 2).ceil()).clamp(max=2 * MOST).long()
    return torch.where(count <= 1, 1, found)


def _shifted(x: Tensor, by: int, fill: int = 0) -> Tensor:
    """Chunk i + by of x (g, rounds, chunks, size, d) in the place of chunk i."""
    if by == 0:
        return x
    pad = F.pad(x, (0, 0, 0, 0, max(-by, 0), max(by, 0)), value=fill)
    return pad[:, :, max(by, 0) : max(by, 0) + x.shape[2]]
