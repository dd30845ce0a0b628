"""Full attention: every query sees every key; what the others are compared with.

    z = map(score(q, K)) V        n² d

The weights are those of `MultiHead`. Vaswani et al. (2017), arXiv:1706.03762, §3.2.
"""

from regard.mechanisms.mechanism import Core, Mechanism, register


class FullCore(Core):
    """Attention to all keys."""


@register(masks="any", slope=2.0, across=True, maps=True)
class Full(Mechanism):
    """Multi-head attention as it is."""

    core_kind = FullCore
