"""Which keys each query may attend to, as transformers asks: always written out as (b, 1, m, n) booleans.

transformers' own functions leave the mask out where a flag of their attention function can stand for it
(causal, nothing padded) and say so in arguments that they pass explicitly. Here both are overwritten: an
attention of ours that is given no mask was not meant to have one.

Where the mask is one of ours (all visible, or `Causal`), the tensor carries it as an attribute, which any
change of the tensor loses.

Models that have no form for `sdpa` read masks as numbers that are added to the scores, 0 or the lowest one:
some change them as such, or add them in attentions that do not ask the interface. They get that form.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask

from regard.masks import Causal, Mask
from regard.masks.mask import Given

KNOWN = "_regard_mask"


def mask_function(*arguments: Any, **named: Any) -> Tensor:
    """The mask (b, 1, m, n) of these sizes, offsets and rules; True = may be attended to."""
    named["allow_is_causal_skip"] = named["allow_is_bidirectional_skip"] = False
    mask: Tensor = sdpa_mask(*arguments, **named)
    if not torch.compiler.is_compiling() and not arguments:
        _remember(mask, **named)
    return mask


def additive_mask_function(*arguments: Any, **named: Any) -> Tensor:
    """The same mask as what is added to scores: 0, or the lowest number."""
    seen, dtype = mask_function(*arguments, **named), named.get("dtype", torch.float32)
    mask = torch.where(seen, torch.zeros((), dtype=dtype, device=seen.device), torch.finfo(dtype).min)
    if not torch.compiler.is_compiling():
        setattr(mask, KNOWN, as_known(seen))
    return mask


def _remember(
    mask: Tensor,
    q_length: int = 0,
    kv_length: int = 0,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Any = causal_mask_function,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> None:
    if attention_mask is not None and not bool(attention_mask.all()):
        return
    if mask_function is bidirectional_mask_function:
        if attention_mask is None or attention_mask.shape[-1] >= kv_offset + kv_length:
            setattr(mask, KNOWN, None)
    elif mask_function is causal_mask_function and not isinstance(q_offset, Tensor):
        covered = attention_mask is None or attention_mask.shape[-1] >= kv_offset + kv_length
        if covered and q_offset + q_length == kv_offset + kv_length:
            setattr(mask, KNOWN, Causal() if q_length > 1 else None)


def is_known(mask: Tensor) -> bool:
    """Whether a tensor is one of those that were made here, unchanged."""
    return not torch.compiler.is_compiling() and KNOWN in vars(mask)


def as_known(mask: Tensor) -> Mask | None:
    """The mask that a boolean tensor (b, 1, m, n), or one made here, stands for; None if all is visible."""
    if not is_known(mask):
        return Given(mask)
    known: Mask | None = vars(mask)[KNOWN]
    return known
