"""Softmax attention tile by tile: torch's CPU kernel where it can, else the same steps written out.

    s = q Kᵀ + terms,   λ = log Σⱼ exp sⱼ,   p = exp(s − λ),   z = p V
    δ = z · ∂z,   ∂s = p (∂z Vᵀ − δ),   ∂q = ∂s K,   ∂K = ∂sᵀ q,   ∂V = pᵀ ∂z

The kernel has no gradient of a bias, no cap and no dropout: tiles with these are written out. A sink adds
exp(sink) to the sum: with λ and z of that sum, the rest stays as it is.

Dao, Fu, Ermon, Rudra & Ré (2022), "FlashAttention", arXiv:2205.14135, Algorithms 1, 4.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import (
    flop_registry,
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from regard.backends.flash_bias import HIDDEN, Terms, skewed
from regard.backends.flash_tiles import Tile, pieces
from regard.backends.flash_values import Band
from regard.kernels.attention.dropout_operator import dropped

ATEN = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
ATEN_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
if ATEN not in flop_registry:  # torch counts 0 for its kernels on the CPU
    register_flop_formula(ATEN)(lambda *shapes, **_: sdpa_flop_count(*shapes[:3]))
    register_flop_formula(ATEN_BACKWARD)(lambda *shapes, **_: sdpa_backward_flop_count(*shapes[:4]))
ROWS = 256  # queries of a tile that is written out

Inputs = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


@dataclass(frozen=True, eq=False)
class Softmax:
    """One call: q (a, b, g, m, d), k and v (a, b, n, d); bias, table and sink (a or 1, b or 1, g or 1, …).

    The last input is None, or the vectors by distance of a `Band`.
    """

    terms: Terms
    tiles: Sequence[Tile]
    causal: bool = False  # the kernel's own mask, of one tile with as many queries as keys
    rate: float = 0.0  # of dropout
    seed: int = 0
    band: Band | None = None  # of vectors added to the values

    @property
    def written(self) -> bool:
        """Whether the kernel cannot do it."""
        return self.terms.cap is not None or self.rate > 0

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Context (a, b, g, m, d) and λ (a, b, g, m)."""
        q, k, v, bias, table, sink, _ = inputs
        a, b, g, m = q.shape[:4]
        if len(self.tiles) == 1 and g == 1 and table is None and not self.written:
            context, sums = (t.unsqueeze(2) for t in self._by_kernel(self.tiles[0], 0, inputs))
        else:
            context = q.new_empty(a, m, b, g, v.shape[-1]).permute(0, 2, 3, 1, 4)  # as heads are joined later
            sums = q.new_empty(a, b, g, m)
            if self.causal and a <= g:  # one call for all b * g heads: threads have more equal shares
                for i in range(a):
                    shared = (t[i].unsqueeze(1).expand(-1, g, -1, -1) for t in (k, v))
                    context[i], sums[i] = ATEN(q[i], *shared, 0.0, True, scale=1.0)
            else:
                self._by_tiles(inputs, context, sums)
        if sink is None:
            return context, sums
        context = context * torch.sigmoid(sums - sink).unsqueeze(-1)
        return context, torch.logaddexp(sums, sink)

    def backward(
        self, inputs: Inputs, context: Tensor, sums: Tensor, gradient: Tensor, needed: Sequence[bool]
    ) -> list[Any]:
        """The gradients of the inputs, None where none is needed."""
        q, k, v, bias, table, sink, vectors = inputs
        gradient = gradient if gradient.stride(-1) == 1 else gradient.contiguous()
        slow = self.written or needed[3] or needed[4]
        by_distance = torch.zeros_like(vectors) if vectors is not None else None
        if len(self.tiles) == 1 and q.shape[2] == 1 and table is None and not slow and vectors is None:
            found = self._kernel_backward(self.tiles[0], 0, inputs, context, sums, gradient)
            grads: list[Any] = [found[0].unsqueeze(2), *found[1:], None, None]
        else:
            grads = [torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v), None, None]
            for at, term in ((3, bias), (4, table)):
                if needed[at] and term is not None:
                    grads[at] = torch.zeros_like(term)
            delta = (context * gradient).sum(-1) if slow else None
            for tile in self.small(slow):
                for one in range(q.shape[2]):
                    rows = grads[0][:, :, one, tile.start : tile.stop]
                    if not tile.width:
                        rows.zero_()
                    elif slow:
                        self._steps_backward(
                            tile, one, inputs, sums, gradient, delta, rows, grads, by_distance
                        )
                    else:
                        found = self._kernel_backward(tile, one, inputs, context, sums, gradient, by_distance)
                        rows.copy_(found[0])
                        for whole, part in zip(grads[1:3], found[1:], strict=True):
                            _add(tile, whole, part)
        if sink is not None and needed[5]:
            delta = (context * gradient).sum(-1)
            weight = torch.exp(sink - sums)  # of the sink: its exp is part of the sum
            grads.append((-weight * delta).sum_to_size(sink.shape))
        else:
            grads.append(None)
        return [*grads, by_distance]

    def _by_tiles(self, inputs: Inputs, context: Tensor, sums: Tensor) -> None:
        """Write context and λ, a tile and a query of each group at a time."""
        run = self._by_steps if self.written else self._by_kernel
        for tile in self.small():
            rows = slice(tile.start, tile.stop)
            for one in range(context.shape[2]):
                if not tile.width:
                    context[:, :, one, rows], sums[:, :, one, rows] = 0, 0
                    continue
                context[:, :, one, rows], sums[:, :, one, rows] = run(tile, one, inputs)

    def small(self, slow: bool = False) -> Iterator[Tile]:
        """The tiles, those that are written out with fewer queries."""
        for tile in self.tiles:
            if not (self.written or slow):
                yield tile
                continue
            for start in range(tile.start, tile.stop, ROWS):
                yield Tile(start, min(start + ROWS, tile.stop), tile.first, tile.last, tile.index)

    def _cut(self, tile: Tile, g: int, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, _, table, _, _ = inputs
        q = q[:, :, g, tile.start : tile.stop]
        return q if table is None else q.flip(-2), tile.keys(k), tile.keys(v)

    def _by_kernel(self, tile: Tile, g: int, inputs: Inputs) -> tuple[Tensor, Tensor]:
        q, k, v = self._cut(tile, g, inputs)
        mask = None if self.causal else self._mask(tile, g, inputs)
        vectors = inputs[6]
        if self.band is None or vectors is None:
            context, sums = ATEN(q, k, v, 0.0, self.causal, attn_mask=mask, scale=1.0)
        else:
            v = self.band.shifted(tile, v, vectors)
            context, sums = ATEN(q, k, v, 0.0, False, attn_mask=mask, scale=1.0)
            p, index, _ = self._near(self.band, tile, g, inputs, q, sums)
            context = context + self.band.per_distance(p, index) @ vectors
        return (context, sums) if inputs[4] is None else (context.flip(-2), sums.flip(-1))

    def _near(
        self, band: Band, tile: Tile, g: int, inputs: Inputs, q: Tensor, sums: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The weights of the keys near a tile's queries, the vectors they go with, and these keys."""
        near, table = band.near(tile), inputs[4]
        keys = near.keys(inputs[1])
        theta = q @ keys.mT
        added, visible = self.terms.added(near, g, inputs[3], table, q)
        theta = theta if added is None else theta + added
        theta = theta if visible is None else theta.masked_fill(~visible, HIDDEN)
        p = torch.where(theta == HIDDEN, 0, (theta - sums.unsqueeze(-1)).exp())
        return p, band.index(near, table is not None, q.device), keys

    def _kernel_backward(
        self, tile: Tile, g: int, inputs: Inputs, context: Tensor, sums: Tensor, gradient: Tensor,
        by_distance: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        q, k, v = self._cut(tile, g, inputs)
        context, gradient = (t[:, :, g, tile.start : tile.stop] for t in (context, gradient))
        sums = sums[:, :, g, tile.start : tile.stop]
        if inputs[4] is not None:
            context, gradient, sums = context.flip(-2), gradient.flip(-2), sums.flip(-1)
        mask = None if self.causal else self._mask(tile, g, inputs)
        band, vectors = self.band, inputs[6]
        if band is not None and vectors is not None:
            v = band.shifted(tile, v, vectors)
        found = ATEN_BACKWARD(gradient, q, k, v, context, sums, 0.0, self.causal, attn_mask=mask, scale=1.0)
        if band is not None and vectors is not None and by_distance is not None:
            p, index, keys = self._near(band, tile, g, inputs, q, sums)
            more = p * (gradient @ vectors.mT).gather(-1, index.expand(p.shape))  # of the near scores
            dq, dk, dv = found
            near = dk[..., band.columns(tile), :]
            near += more.mT @ q
            by_distance += band.gradient(tile, band.per_distance(p, index), gradient, dv)
            found = dq + more @ keys, dk, dv
        return found if inputs[4] is None else (found[0].flip(-2), *found[1:])

    def _mask(self, tile: Tile, g: int, inputs: Inputs) -> Tensor | None:
        q, _, _, bias, table, _, _ = inputs
        return self.terms.joined(*self.terms.added(tile, g, bias, table, q), q)

    def _by_steps(self, tile: Tile, g: int, inputs: Inputs) -> tuple[Tensor, Tensor]:
        q, k, v = self._cut(tile, g, inputs)
        added, visible = self.terms.added(tile, g, inputs[3], inputs[4], q)
        band, vectors = self.band, inputs[6]
        index = band.index(band.near(tile), inputs[4] is not None, q.device) if band is not None else None
        if band is not None and vectors is not None:
            v = band.shifted(tile, v, vectors)
        context, sums = v.new_empty(*q.shape[:3], v.shape[-1]), q.new_empty(q.shape[:3])
        for number, (i, some) in enumerate(pieces(q.shape[0], q.shape[1], q.shape[2] * tile.width)):
            theta = self._scores(q[i, some], k[i, some], _part(added, i, some), _part(visible, i, some))
            top = theta.amax(-1, keepdim=True)
            top = torch.where(top == HIDDEN, 0, top)
            p = theta.sub_(top).exp_()
            total = p.sum(-1, keepdim=True)
            total = torch.where(total == 0, 1, total)
            if self.rate:
                p = dropped(p, self.rate, self.key(tile, g, number))
            z = torch.bmm(p, v[i, some])
            if band is not None and vectors is not None and index is not None:
                z += band.per_distance(p[..., band.columns(tile)], index) @ vectors
            context[i, some] = z.div_(total)
            sums[i, some] = (top + total.log()).squeeze(-1)
        return (context, sums) if inputs[4] is None else (context.flip(-2), sums.flip(-1))

    def _steps_backward(
        self, tile: Tile, g: int, inputs: Inputs, sums: Tensor, gradient: Tensor, delta: Any, dq: Tensor,
        grads: list[Any], by_distance: Tensor | None = None,
    ) -> None:  # fmt: skip
        q, k, v = self._cut(tile, g, inputs)
        band, vectors = self.band, inputs[6]
        index = band.index(band.near(tile), inputs[4] is not None, q.device) if band is not None else None
        if band is not None and vectors is not None:
            v = band.shifted(tile, v, vectors)
        bias, table, rows = inputs[3], inputs[4], slice(tile.start, tile.stop)
        added, visible = self.terms.added(tile, g, bias, table, q)
        dz, sums, delta = gradient[:, :, g, rows], sums[:, :, g, rows], delta[:, :, g, rows]
        if table is not None:
            dz, sums, delta = dz.flip(-2), sums.flip(-1), delta.flip(-1)
        high, width = q.shape[2], tile.width
        kept: Tensor | None = None
        for number, (i, some) in enumerate(pieces(q.shape[0], q.shape[1], high * width)):
            here, at = (i, some), self.key(tile, g, number)
            p = self._scores(q[here], k[here], _part(added, *here), _part(visible, *here))
            slope = None if self.terms.cap is None else 1 - (p / self.terms.cap) ** 2
            p = p.sub_(sums[here].unsqueeze(-1)).exp_()
            less = delta[here].unsqueeze(-1)
            ds = torch.bmm(dz[here], v[here].mT) if self.rate or band is not None else None
            if ds is not None and band is not None and vectors is not None and index is not None:
                near = ds[..., band.columns(tile)]
                near += (dz[here] @ vectors.mT).gather(-1, index.expand(near.shape))
            if ds is None:
                ds = torch.baddbmm(less, dz[here], v[here].mT, beta=-1)
            else:
                ds = (dropped(ds, self.rate, at) if self.rate else ds).sub_(less)
            spent = dropped(p, self.rate, at) if self.rate else p
            _add_product(tile, grads[2][here], spent.mT, dz[here])
            if band is not None and by_distance is not None and index is not None:
                weights = band.per_distance(spent[..., band.columns(tile)], index)
                by_distance += band.gradient(tile, weights, dz[here], torch.bmm(spent.mT, dz[here]))
            if slope is not None:
                ds.mul_(torch.where(p > 0, slope, 0))
            skew = None
            if grads[4] is None:
                ds.mul_(p)
            else:
                if kept is None or len(kept) != len(p):
                    kept = p.new_zeros(p.shape[0], high, high + width - 1)
                skew = kept  # what lies beside the tile stays 0
                ds = torch.mul(ds, p, out=skewed(skew, high, width))
            grad = torch.bmm(ds, k[here])
            dq[here] = grad if table is None else grad.flip(-2)
            _add_product(tile, grads[1][here], ds.mT, q[here])
            if grads[3] is not None:
                self._add_bias(tile, g, ds if table is None else ds.flip(-2), grads[3], i, some)
            if skew is not None:
                self._add_table(tile, g, skew, grads[4], i, some)

    def _add_bias(self, tile: Tile, g: int, ds: Tensor, grad: Tensor, i: int, some: slice) -> None:
        own = _part(part_of(grad, g), i, some)  # (b or 1, m or 1, n or 1)
        if own.shape[0] == 1:
            ds = ds.sum(0, keepdim=True)
        if own.shape[1] == 1:
            ds = ds.sum(1, keepdim=True)
        else:
            own = own[:, tile.start : tile.stop]
        if own.shape[2] == 1:
            own += ds.sum(2, keepdim=True)
        elif tile.index is None:
            own[..., tile.first : tile.last] += ds
        else:
            own.index_add_(-1, tile.index, ds)

    def _add_table(self, tile: Tile, g: int, skew: Tensor, grad: Tensor, i: int, some: slice) -> None:
        own = _part(part_of(grad, g), i, some)  # (b or 1, m or 1, L)
        if own.shape[0] == 1:
            skew = skew.sum(0, keepdim=True)
        if own.shape[1] == 1:
            own += self.terms.gathered(skew.sum(1, keepdim=True), tile, own.shape[-1])
        else:
            own[:, tile.start : tile.stop] += self.terms.gathered(skew, tile, own.shape[-1]).flip(-2)

    def _scores(self, q: Tensor, k: Tensor, added: Tensor | None, visible: Tensor | None) -> Tensor:
        theta = torch.bmm(q, k.mT)
        if added is not None:
            theta += added
        if self.terms.cap is not None:
            theta.div_(self.terms.cap).tanh_().mul_(self.terms.cap)
        return theta if visible is None else theta.masked_fill_(~visible, HIDDEN)

    def key(self, tile: Tile, g: int, number: int) -> int:
        """Of the random numbers of one piece of a tile."""
        return (self.seed + (tile.start * 1009 + g) * 100_003 + number) % (1 << 62)


def part_of(tensor: Tensor, g: int) -> Tensor:
    """Of (a, b, g or 1, …) what belongs to one of g."""
    return tensor[:, :, g if tensor.shape[2] > 1 else 0]


def _part(tensor: Any, i: int, some: slice) -> Any:
    """Of (a or 1, b or 1, …) what belongs to i and some."""
    if tensor is None:
        return None
    tensor = tensor[i if tensor.shape[0] > 1 else 0]
    return tensor[some] if tensor.shape[0] > 1 else tensor


def _add(tile: Tile, whole: Tensor, part: Tensor) -> None:
    """Add the gradient of a tile's keys to that of all of them."""
    if tile.index is None:
        whole[..., tile.first : tile.last, :] += part
    else:
        whole.index_add_(-2, tile.index, part)


def _add_product(tile: Tile, whole: Tensor, one: Tensor, other: Tensor) -> None:
    """The same of a product (b, width, rows) (b, rows, d), in one step where that is possible."""
    if tile.index is None:
        whole.narrow(-2, tile.first, tile.last - tile.first).baddbmm_(one, other)
    else:
        _add(tile, whole, torch.bmm(one, other))


def padded(tensor: Tensor, width: int) -> Tensor:
    """(..., d) with zeros up to a width."""
    return tensor if tensor.shape[-1] == width else F.pad(tensor, (0, width - tensor.shape[-1]))
