"""One step of decoding through a pre-norm layer of self-attention and feed-forward, in one kernel.

What the layer computes for the next position of a few texts, from its cache: the operations themselves are so
small that to call them one by one takes longer. Only where `cached_step` may be taken, too.
"""

import ctypes
from typing import cast

import torch
from torch import Tensor, nn

from regard.heads.multi_head import MultiHead
from regard.kernels.common.operator import are_plain_weights
from regard.kernels.common.pool import call_in_threads, load_kernels
from regard.kernels.decoding.few_rows import FEW, LEAST, is_bare
from regard.kernels.decoding.layer_arguments import ACTIVATIONS, Arguments
from regard.memories import KeyValue
from regard.models.parts.feed_forward import ACTIVATIONS as FUNCTIONS
from regard.models.parts.feed_forward import FeedForward
from regard.models.parts.residual import Residual
from regard.positions.rotary import Rotary
from regard.scores.scaled_dot import ScaledDot

NUMBERS = {FUNCTIONS[name]: number for number, name in enumerate(ACTIVATIONS)}


def takes_layer(heads: MultiHead, around: Residual, further: Residual, feed: nn.Module, x: Tensor) -> bool:
    """Whether `layer_step` may be taken for x (b, 1, width), where `cached_step` may."""
    if type(feed) is not FeedForward or not is_bare(feed) or feed.activation not in NUMBERS or len(x) > FEW:
        return False
    d, inner = x.shape[-1], feed.W1.out_features
    square = (d, d)
    for layer, shape in (
        (heads.W_q, square), (heads.W_k, square), (heads.W_v, square), (heads.W_o, square),
        (feed.W1, (inner, d)), (feed.W2, (d, inner)), (around.norm, (d,)), (further.norm, (d,)),
    ):  # fmt: skip
        if type(layer) is not (nn.Linear if len(shape) == 2 else nn.LayerNorm) or not is_bare(layer):
            return False
        weight, bias = layer._parameters["weight"], layer._parameters["bias"]
        if (
            weight is None
            or weight.shape != shape
            or weight.dtype is not x.dtype
            or not weight.is_contiguous()
        ):
            return False
        if bias is None:
            if not are_plain_weights((weight,)):
                return False
        elif bias.dtype is not x.dtype or not bias.is_contiguous() or not are_plain_weights((weight, bias)):
            return False
    score = heads.score
    return not isinstance(score, Rotary) or score.width * heads.heads == d


def layer_step(
    heads: MultiHead, around: Residual, further: Residual, feed: FeedForward, x: Tensor, cache: KeyValue
) -> Tensor:
    """The layer of the next position x (b, 1, width), by the keys and values of a cache."""
    score, n, rows, d = heads.score, len(cache), len(x), x.shape[-1]
    x, held, kind = x.contiguous(), list[Tensor](), x.dtype
    cos = sin = turned = interleaved = 0
    if isinstance(score, Rotary):
        held += score.turns(x, range(n, n + 1), None)
        cos, sin, turned, interleaved = (
            held[0].data_ptr(),
            held[1].data_ptr(),
            score.turned,
            score.interleaved,
        )
        score = cast(ScaledDot, score.score)
    scale = cast(ScaledDot, score).scale
    keys, values = cache.reserve(1)
    inner, y = feed.W1.out_features, torch.empty_like(x)
    work = torch.empty(rows * (5 * d + inner), dtype=kind)
    addresses = []
    for layer in (around.norm, heads.W_q, heads.W_k, heads.W_v, heads.W_o, further.norm, feed.W1, feed.W2):
        weight, bias = layer._parameters["weight"], layer._parameters["bias"]
        addresses += [cast(Tensor, weight).data_ptr(), 0 if bias is None else bias.data_ptr()]
    counters = (ctypes.c_int64 * 10)()
    struct = Arguments(
        0, x.data_ptr(), y.data_ptr(), *addresses, keys.data_ptr(), values.data_ptr(), cos, sin,
        work.data_ptr(), ctypes.addressof(counters), rows, d, heads.heads, inner, n, keys.shape[-2], turned,
        interleaved, NUMBERS[feed.activation], around.norm.eps, further.norm.eps,
        (d // heads.heads) ** -0.5 if scale is None else scale,
    )  # fmt: skip
    run = load_kernels("regard.kernels.decoding.layer_kernel").compiled_layer(kind)
    size = 4 * d * d + 2 * d * inner
    call_in_threads(run, ctypes.addressof(struct), min(torch.get_num_threads(), size // LEAST))
    return y
