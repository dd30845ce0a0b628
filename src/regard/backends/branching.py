"""The decoding backend: the next step of hypotheses that share a prefix.

For scores that are dot products with the keys as they are, and every map of single rows, without a gradient.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.core.place import Place
from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import load_kernels, over_rows
from regard.maps.softmax import softmax
from regard.maps.table import facts_of
from regard.scores.score import Factored

KINDS = (torch.float32, torch.float64)


def branching(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    ancestors: Tensor,
    score: Callable[..., Tensor],
    map: Callable[..., Tensor],
    place: Place | None = None,
) -> Tensor | None:
    """Context (r, heads, 1, d) of query (r, heads, 1, d), or None where this backend does not apply.

    Keys and values are (room, any rows, heads, d), or of fewer heads, each shared by neighbouring ones;
    ancestors (t, r) says which row each place is in.
    """
    facts, tensors = facts_of(map), (query, keys, values)
    if (
        not isinstance(score, Factored)
        or (score.uses_place and (place is None or not place.encoded))
        or facts is None
        or facts.acts_on == "matrix"
        or facts.stochastic
        or getattr(map, "states", None)
        or {t.dtype for t in tensors} - set(KINDS)
        or len({t.dtype for t in tensors}) > 1
        or not all(is_plain(t) for t in tensors)
        or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))
    ):
        return None
    factor, same = score.factors(query, keys, *((place,) if place is not None and score.uses_place else ()))
    if same is not keys:
        return None
    kernels = load_kernels("regard.kernels.decoding.branching_kernel")
    (r, heads, _, d), t = query.shape, len(ancestors)
    factor = factor.detach().reshape(r, heads, d).contiguous()
    if map is softmax:
        context = query.new_empty(r, heads, values.shape[-1])
        arrays = (x.numpy() for x in (factor, keys.detach().contiguous(), values.detach().contiguous()))
        over_rows(kernels.softmax_contexts, r, r * heads * t * d, *arrays, ancestors.numpy(), context.numpy())
        return context.unsqueeze(-2)
    theta, context = query.new_empty(r, heads, t), query.new_empty(r, heads, values.shape[-1])
    table, work = ancestors.numpy(), r * heads * t * d
    over_rows(
        kernels.scores, r, work, factor.numpy(), keys.detach().contiguous().numpy(), table, theta.numpy()
    )
    weights = map(theta.unsqueeze(-2)).squeeze(-2).contiguous()
    held = values.detach().contiguous().numpy()
    over_rows(kernels.contexts, r, work, weights.detach().numpy(), held, table, context.numpy())
    return context.unsqueeze(-2)
