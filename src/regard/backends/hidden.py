"""What a mask hides from every query is set to 0 before anything is computed from it."""

import torch
from torch import Tensor

from regard.backends.call import Call
from regard.backends.groups import split
from regard.kernels.common.operator import is_plain
from regard.maps.table import facts_of
from regard.masks import Causal
from regard.masks.mask import grows


def zeroed(tensor: Tensor, seen: Tensor | None) -> Tensor:
    """The tensor (..., k, d) with 0 in the rows nobody sees; seen (..., k or 1), or None for all.

    Done before score and projection, so that no gradient, of inputs or of parameters, meets what is hidden.
    """
    if seen is None:
        return tensor
    while seen.dim() > tensor.dim() - 1:
        seen = seen.any(0)
    for axis in range(2, seen.dim() + 1):
        if tensor.shape[-axis - 1] == 1 and seen.shape[-axis] > 1:
            seen = seen.any(-axis, keepdim=True)
    return torch.where(seen.unsqueeze(-1), tensor, 0)


def by_any_of_group(seen: Tensor | None, groups: int) -> Tensor | None:
    """Keys visible to any head of those that share them: (..., heads or 1, k) to (..., kv or 1, k)."""
    if seen is None or groups == 1 or seen.dim() < 2 or seen.shape[-2] == 1:
        return seen
    return split(seen, groups, -2).any(-2)


def refuse_causal_matrix(call: Call) -> None:
    """Raise if rows depend on one another (a map of whole matrices) and the mask hides the future."""
    facts = facts_of(call.map)
    if call.mask is None or facts is None or facts.acts_on != "matrix":
        return
    if any(isinstance(part, Causal) for part in call.mask.parts()) or (
        is_plain(call.query) and grows(call.mask, call.m, call.n, len(call.batch), call.query.device)
    ):
        raise ValueError(
            "a map that acts on the whole matrix lets every row see all others: it takes no Causal mask, "
            "nor a boolean one under which queries see more and more keys."
        )
