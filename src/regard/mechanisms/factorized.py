"""The sparse Transformer's two patterns: half of the heads look nearby, the others at a few far places.

`strided.py` and `fixed.py` say what near and far are. With a stride l of √n both cost n √n. Masks alone would
save little, since hardly any tile of 64 × 64 keys is empty: keys are reordered or gathered instead, which
gives what the masks give.

Without a `stride` it is √n, n the length of a sequence without the padding behind it, so that nothing depends
on how far a batch is padded. Under a causal mask it must not depend on the length, and is 32: what is
generated token by token is then what is computed at once.

Child, Gray, Radford & Sutskever (2019), "Generating Long Sequences with Sparse Transformers",
arXiv:1904.10509, §4.2. Departs from the paper: the two patterns are heads of one layer (the paper's third
option, §4.3); a token sees itself in both patterns; without a causal mask both patterns look both ways.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import attend
from regard.backends.call import Call
from regard.core.shapes import widened
from regard.masks import Mask
from regard.mechanisms.mechanism import Core, Heads, Pattern, at_least_one, joined

CAUSAL = 32  # the stride, where it must not depend on the length
SHORT = 2  # up to so many strides there is nothing to save

Parts = tuple[Tensor, Tensor, Tensor]  # factors of queries and keys, and values: (..., heads, n, d)


class NearAndFar(Pattern):
    """What near heads see, and what far heads see; strides and ends are one number, or (..., 1, 1) each."""

    def __init__(self, core: "FactorizedCore", stride: int | Tensor, causal: bool, end: Tensor | None = None):
        self.core, self.stride, self.causal, self.end = core, stride, causal, end

    def sees(self, i: Tensor, j: Tensor, n: int) -> Tensor:
        near, far = self.core.patterns(i, j, self.stride)
        half = self.core.heads // 2
        both = torch.stack([near] * half + [far] * (self.core.heads - half), -3)
        both = both & (j <= i) if self.causal else both
        return both if self.end is None else both & (i < self.end).unsqueeze(-3)


class FactorizedCore(Core):
    """Near and far heads; a subclass says what these are."""

    def __init__(self, each: int, heads: int, *, stride: int | None = None):
        super().__init__(each, heads)
        if stride is not None:
            at_least_one(self.name, stride=stride)
        if heads < 2:
            raise ValueError(f"{self.name} has near and far heads: it needs two or more; got heads={heads}.")
        self.stride = stride

    def stride_of(self, heads: Heads, causal: bool) -> int:
        """l where it is the same for all sequences: as it was given, √n, or 32 under a causal mask."""
        if self.stride is not None:
            return self.stride
        return CAUSAL if causal or heads.cached else _root(heads.call.n)

    def patterns(self, i: Tensor, j: Tensor, stride: int | Tensor) -> tuple[Tensor, Tensor]:
        """What near heads and far heads see of keys at j from i, without regard to what comes later."""
        raise NotImplementedError

    def near(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        """The context of near heads."""
        raise NotImplementedError

    def far(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        """The context of far heads."""
        raise NotImplementedError

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        pattern = NearAndFar(self, self.stride_of(heads, causal), causal)
        if self._by_length(heads, causal, shown):
            assert shown is not None
            ends = _ends(shown, len(heads.call.batch) - 1)  # (...)
            strides = torch.tensor([_root(end) for end in ends.flatten().tolist()], device=ends.device)
            pattern = NearAndFar(self, strides.view(*ends.shape, 1, 1), causal, ends[..., None, None])
        return replace(heads.call, mask=joined(pattern, heads.call.mask))

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        if not heads.whole:
            return None
        every = (*self.factors(call), widened(call.values))
        if shown is not None:
            while shown.dim() < call.query.dim():
                shown = shown.unsqueeze(0)
        if not self._by_length(heads, causal, shown):
            stride = self.stride_of(heads, causal)
            return None if call.n <= SHORT * stride else self._both(every, stride, causal, shown, call)
        assert shown is not None
        if call.n <= SHORT * _root(call.n):
            return None
        return self._of_each_length(every, shown, call)

    def _by_length(self, heads: Heads, causal: bool, shown: Tensor | None) -> bool:
        """Whether sequences have strides of their own."""
        return self.stride is None and shown is not None and not causal and not heads.cached

    def _both(self, every: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        """The context of near heads and of far heads, all with one stride."""
        half = self.heads // 2
        near, far = (
            (every[0][..., some, :, :], every[1][..., some, :, :], every[2][..., some, :, :])
            for some in (slice(None, half), slice(half, None))
        )
        found = self.near(near, stride, causal, _of(shown, slice(None, half)), call)
        more = self.far(far, stride, causal, _of(shown, slice(half, None)), call)
        return torch.cat([found, more], -3)

    def _of_each_length(self, every: Parts, shown: Tensor, call: Call) -> Tensor:
        """Sequences of one stride together, without the padding behind the longest of them."""
        batch = call.batch[:-1]
        a, b, v = (x.expand(*batch, *x.shape[-3:]).flatten(0, -4) for x in every)  # (s, heads, n, d)
        shown = shown.expand(*batch, *shown.shape[-3:]).flatten(0, -4)
        ends = _ends(shown, 1).tolist()
        groups: dict[int, list[int]] = {}
        for at, end in enumerate(ends):
            if end:
                groups.setdefault(_root(end), []).append(at)
        found, order = [], []
        for stride, rows in groups.items():
            n = max(ends[at] for at in rows)
            some = torch.tensor(rows, device=a.device)
            parts = (a[some, :, :n], b[some, :, :n], v[some, :, :n])
            context = self._both(parts, stride, False, shown[some][..., :n], call)
            real = (
                torch.arange(n, device=a.device)
                < torch.tensor([ends[at] for at in rows], device=a.device)[:, None]
            )
            context = torch.where(real[:, None, :, None], context, 0)
            found.append(F.pad(context, (0, 0, 0, call.n - n)))
            order += rows
        empty = [at for at, end in enumerate(ends) if not end]
        if empty:
            found.append(v.new_zeros(len(empty), *v.shape[1:]))
        back = torch.tensor(order + empty, device=a.device).argsort()
        whole: Tensor = torch.cat(found)[back].unflatten(0, batch)
        return whole

    def extra_repr(self) -> str:
        return f"stride={self.stride}"


def _of(shown: Tensor | None, heads: slice) -> Tensor | None:
    """Of (..., heads or 1, 1, n) those of some heads."""
    return shown if shown is None or shown.shape[-3] == 1 else shown[..., heads, :, :]


def _root(n: int) -> int:
    return max(1, round(math.sqrt(n)))


def _ends(shown: Tensor, axes: int) -> Tensor:
    """One past the last key that any head sees of each sequence, of shown (..., heads or 1, 1, n): (...)."""
    shown = shown.squeeze(-2)
    at = torch.arange(1, shown.shape[-1] + 1, device=shown.device)
    last = torch.where(shown, at, 0).amax(-1)  # (..., heads or 1)
    last = last.amax(-1) if last.dim() > axes else last
    return last


def in_blocks(x: Tensor, stride: int) -> Tensor:
    """x (..., n, d) as (..., blocks, l, d), with zeros behind it."""
    found: Tensor = F.pad(x, (0, 0, 0, -x.shape[-2] % stride)).unflatten(-2, (-1, stride))
    return found


def keys_in_blocks(shown: Tensor, stride: int) -> Tensor:
    """shown (..., 1, n) as (..., blocks, l), False behind it."""
    shown = shown.squeeze(-2)
    found: Tensor = F.pad(shown, (0, -shown.shape[-1] % stride)).unflatten(-1, (-1, stride))
    return found


def attend_dots(parts: Parts, call: Call, mask: Mask | Tensor) -> Tensor:
    """The context of factors and values under a mask, with the map and the dropout of the call."""
    a, b, v = parts
    return attend(a, b, v, score="dot", map=call.map, mask=mask, dropout=call.dropout).context
