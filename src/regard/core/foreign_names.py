"""Arguments that torch has and regard has not: what to write instead."""

from collections.abc import Mapping
from typing import NoReturn

INSTEAD = {
    "is_causal": "mask=regard.masks.Causal()",
    "attn_mask": "mask=attn_mask as for scaled_dot_product_attention (True = may be attended to), "
    "mask=regard.masks.from_hidden(attn_mask) as for nn.MultiheadAttention, "
    "and of a float mask score=score + regard.positions.Bias(attn_mask)",
    "key_padding_mask": "mask=regard.masks.Lengths(lengths), or "
    "regard.masks.from_hidden(key_padding_mask)[:, None, :], with heads [:, None, None, :]",
    "num_heads": "heads= of regard.heads.MultiHead; attend takes heads as an axis, (..., heads, m, d)",
    "heads": "heads= of regard.heads.MultiHead; attend takes heads as an axis, (..., heads, m, d)",
    "embed_dim": "width= of regard.heads.MultiHead",
    "kdim": "key_width=",
    "vdim": "value_width=",
    "batch_first": "nothing: the batch always comes first",
    "need_weights": "nothing: weights are computed when they are asked for, seen.weights",
    "average_attn_weights": "seen.weights.mean(-3)",
    "dropout_p": "dropout=, of a module when it is built",
    "enable_gqa": "groups=heads // key_value_heads, of a MultiHead key_value_heads=",
    "alpha": "map=regard.maps.Entmax(alpha)",
    "temperature": "score=regard.scores.Temperature(score, temperature)",
    "causal": "mask=regard.masks.Causal()",
    "output_attentions": "nothing: weights are computed when they are asked for, seen.weights",
    "dim": "nothing for the last axis, on which maps act; "
    "for another map(scores.movedim(dim, -1)).movedim(-1, dim)",
}


def refuse(function: str, arguments: Mapping[str, object]) -> NoReturn:
    """Raise a TypeError that says what to write instead of the first of these keyword arguments."""
    name = next(iter(arguments))
    if name not in INSTEAD:
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    raise TypeError(f"{function} has no {name}=. Write {INSTEAD[name]}.")
