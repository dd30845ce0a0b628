"""The sparse Transformer's two patterns: half of the heads look nearby, the others at a few far places.

`strided.py` and `fixed.py` say what near and far are. With a stride l of √n both cost n √n. Masks alone would
save little, since hardly any tile of 64 × 64 keys is empty: keys are reordered or gathered instead, which
gives what the masks give.

Without a `stride` it is √n; where keys are cached, so that n grows, it is 32.

Child, Gray, Radford & Sutskever (2019), "Generating Long Sequences with Sparse Transformers",
arXiv:1904.10509, §4.2. Departs from the paper: the two patterns are heads of one layer (the paper's third
option, §4.3); a token sees itself in both patterns; without a causal mask both patterns look both ways.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import attend
from regard.backends.call import Call
from regard.core.shapes import widened
from regard.masks import Mask
from regard.mechanisms.mechanism import Core, Heads, Pattern, at_least_one, joined

CACHED = 32  # the stride where n grows
SHORT = 2  # up to so many strides there is nothing to save

Parts = tuple[Tensor, Tensor, Tensor]  # factors of queries and keys, and values: (..., heads, n, d)


class NearAndFar(Pattern):
    """What near heads see, and what far heads see."""

    def __init__(self, core: "FactorizedCore", stride: int, causal: bool):
        self.core, self.stride, self.causal = core, stride, causal

    def sees(self, i: Tensor, j: Tensor, n: int) -> Tensor:
        near, far = self.core.patterns(i, j, self.stride)
        half = self.core.heads // 2
        both = torch.stack([near] * half + [far] * (self.core.heads - half))
        return both & (j <= i) if self.causal else both


class FactorizedCore(Core):
    """Near and far heads; a subclass says what these are."""

    def __init__(self, each: int, heads: int, *, stride: int | None = None):
        super().__init__(each, heads)
        if stride is not None:
            at_least_one(self.name, stride=stride)
        if heads < 2:
            raise ValueError(f"{self.name} has near and far heads: it needs two or more; got heads={heads}.")
        self.stride = stride

    def stride_of(self, heads: Heads) -> int:
        """l: as it was given, √n, or 32 where keys are cached."""
        if self.stride is not None:
            return self.stride
        return CACHED if heads.cached else max(1, round(heads.call.n**0.5))

    def patterns(self, i: Tensor, j: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        """What near heads and far heads see of keys at j from i, without regard to what comes later."""
        raise NotImplementedError

    def near(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        """The context of near heads."""
        raise NotImplementedError

    def far(self, parts: Parts, stride: int, causal: bool, shown: Tensor | None, call: Call) -> Tensor:
        """The context of far heads."""
        raise NotImplementedError

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        pattern = NearAndFar(self, self.stride_of(heads), causal)
        return replace(heads.call, mask=joined(pattern, heads.call.mask))

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        stride, half = self.stride_of(heads), self.heads // 2
        if not heads.whole or call.n <= SHORT * stride:
            return None
        every = (*self.factors(call), widened(call.values))
        near, far = (
            (every[0][..., some, :, :], every[1][..., some, :, :], every[2][..., some, :, :])
            for some in (slice(None, half), slice(half, None))
        )
        if shown is not None:
            while shown.dim() < call.query.dim():
                shown = shown.unsqueeze(0)
        found = self.near(near, stride, causal, _of(shown, slice(None, half)), call)
        more = self.far(far, stride, causal, _of(shown, slice(half, None)), call)
        return torch.cat([found, more], -3)

    def extra_repr(self) -> str:
        return f"stride={self.stride}"


def _of(shown: Tensor | None, heads: slice) -> Tensor | None:
    """Of (..., heads or 1, 1, n) those of some heads."""
    return shown if shown is None or shown.shape[-3] == 1 else shown[..., heads, :, :]


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
