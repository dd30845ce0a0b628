"""One step of decoding: hypotheses attend to their source, whose keys and values are projected already.

    z = W_o [softmax(s K W_q x) V]        over the l real keys of a sentence, for each of its hypotheses

What `MultiHead.forward` does with a cache that does not grow: here for softmax of scaled dot products, where
nobody looks and no gradient is wanted. Sources are short, so in the general case what surrounds a step takes
longer than the step itself (as in `cached_step.py`).
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.heads.cached_step import KINDS, is_softmax_step
from regard.heads.multi_head import MultiHead
from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import load_kernels, over_rows
from regard.masks import Lengths, Mask
from regard.memories import KeyValue
from regard.scores.scaled_dot import ScaledDot

FEW = 8  # hypotheses of a sentence
SHORT = 512  # keys: more are for the backends, which read them in chunks


def takes_source(heads: MultiHead, x: Tensor, mask: Mask | Tensor | None, source: KeyValue) -> bool:
    """Whether `source_step` may be taken for x (r, 1, width)."""
    return (
        type(source) is KeyValue
        and not source.grows
        and type(heads.score) is ScaledDot
        and (mask is None or (type(mask) is Lengths and mask.l.dim() == 1 and source.clean))
        and 0 < len(source) <= SHORT
        and 0 < len(x) <= FEW * len(source.keys)
        and len(x) % len(source.keys) == 0
        and is_softmax_step(heads, x)
        and x.dtype == source.keys.dtype in KINDS
        and source.keys.stride(-1) == source.values.stride(-1) == 1
        and is_plain(x, source.keys, source.values)
    )


def source_step(heads: MultiHead, x: Tensor, mask: Mask | Tensor | None, source: KeyValue) -> Tensor:
    """The context (r, 1, width) of x (r, 1, width): r / b hypotheses for each of the b sentences."""
    keys, values, score = source.keys, source.values, heads.score
    (b, h, n, d), r = keys.shape, len(x)
    if mask is None:
        ends = torch.full((b,), n)
    else:
        assert isinstance(mask, Lengths)
        mask.check((b, h), 1, n)
        ends = mask.l
    assert isinstance(score, ScaledDot)
    scale = d**-0.5 if score.scale is None else score.scale
    query = heads.W_q(x).reshape(b, r // b, h, d).contiguous()
    context = query.new_empty(b, r // b, h, values.shape[-1])
    over_rows(
        load_kernels("regard.kernels.decoding.source_kernel").contexts, b * h, r * h * n * d,
        query.numpy(), _memory(keys), _memory(values), np.array([keys.stride()[:3], values.stride()[:3]]),
        ends.numpy(), n, scale, context.numpy(),
    )  # fmt: skip
    joined: Tensor = heads.W_o(context.view(r, 1, -1))
    return joined


def _memory(x: Tensor) -> NDArray[Any]:
    """The memory of a tensor from its first number on: the kernel knows the steps."""
    found: NDArray[Any] = x.detach().as_strided((1,), (1,)).numpy()
    return found
