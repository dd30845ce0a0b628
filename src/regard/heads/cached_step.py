"""One step of decoding: the next position attends to those in its cache.

    K, V = [K; k], [V; v]        z = softmax(s K q) V        the last query sees all keys

What `MultiHead.forward` does for one query under a causal mask: here for softmax of scaled dot products,
rotary ones too, where nobody looks and no gradient is wanted. In the general case what surrounds so small a
step (masks, places, backends, what is kept for looking) takes longer than the step itself.
"""

from typing import TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core import recorders
from regard.heads.multi_head import MultiHead
from regard.kernels.common.operator import is_plain
from regard.kernels.decoding.few_rows import is_bare, linear
from regard.maps.softmax import softmax
from regard.masks import Causal, Mask
from regard.memories import KeyValue
from regard.positions.rotary import Rotary
from regard.scores.scaled_dot import ScaledDot

KINDS = (torch.float32, torch.float64)


def takes_step(heads: nn.Module, x: Tensor, mask: Mask | None, cache: KeyValue | None) -> bool:
    """Whether `cached_step` may be taken for x (b, 1, width)."""
    if cache is None or type(mask) is not Causal or type(cache) is not KeyValue or x.dim() != 3:
        return False
    if not (cache.grows and len(cache) > 0 and x.dtype in KINDS and is_softmax_step(heads, x)):
        return False
    score = heads.score
    if type(score) is Rotary and cache.encoded:
        score = score.score
    return type(score) is ScaledDot and is_plain(x)


def is_softmax_step(heads: nn.Module, x: Tensor) -> TypeGuard[MultiHead]:
    """Whether one query x (b, 1, width) meets softmax weights and nothing else, whatever the score.

    Nobody looks, no gradient is wanted, and each head has its own keys.
    """
    return (
        x.shape[1] == 1
        and not torch.is_grad_enabled()
        and not recorders.active
        and type(heads) is MultiHead
        and is_bare(heads)
        and heads.map is softmax
        and heads.groups == 1
        and heads.sink is None
        and heads.value_term is None
        and not (heads.dropout and heads.training)
        and not torch.is_autocast_enabled("cpu")
    )


def cached_step(heads: MultiHead, x: Tensor, cache: KeyValue) -> Tensor:
    """The context (b, 1, width) of the next position x (b, 1, width), by the keys and values of a cache."""
    score, n, shape = heads.score, len(cache), (len(x), heads.heads, 1, -1)
    q, k, v = (linear(W, x).view(shape) for W in (heads.W_q, heads.W_k, heads.W_v))
    if isinstance(score, Rotary):
        q, k = score.rotated(torch.cat([q, k], 1), range(n, n + 1)).chunk(2, 1)
        score = score.score
    keys, values = cache.append(k, v)
    context = F.scaled_dot_product_attention(q, keys, values, scale=cast(ScaledDot, score).scale)
    return linear(heads.W_o, context.view(len(x), 1, -1))
