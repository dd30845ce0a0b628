"""Local attention: a query sees the `window` tokens before it and, unless causal, as many after it.

    z = map(score(q, K) under |i − j| ≤ w) V        w n d

A mask says which tiles are empty, and the backends skip them: with any score and any map. With a window of n
or more it is full attention. The weights are (..., heads, m, n), 0 outside the window.

Parmar et al. (2018), "Image Transformer", arXiv:1802.05751, §4; in blocks: Tay et al. (2020), "Long Range
Arena", arXiv:2011.04006. Departs from both: the window moves with the query, it is no block.
"""

from dataclasses import replace

from torch import Tensor

from regard.backends.call import Call
from regard.masks import Window
from regard.mechanisms.mechanism import Core, Heads, Mechanism, at_least_one, joined, register


class LocalCore(Core):
    """Attention within a window."""

    def __init__(self, each: int, heads: int, *, window: int = 32):
        super().__init__(each, heads)
        at_least_one(self.name, window=window)
        self.window = window

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        call, window = heads.call, Window(self.window)
        mask = joined(window, call.mask)
        sees = mask.seen(call.m, call.n, len(call.batch), call.query.device)[1]
        return replace(call, mask=mask, sees=sees)

    def extra_repr(self) -> str:
        return f"window={self.window}"


@register(masks="any", across=True, maps=True)
class Local(Mechanism):
    """Multi-head attention to what is near."""

    core_kind = LocalCore
