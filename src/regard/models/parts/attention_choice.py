"""Self-attention by the name of a mechanism, as configurations have it: "performer", "local:window=32".

`regard.MECHANISMS` has them. Cross-attention stays full.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.heads import MultiHead
from regard.mechanisms import MECHANISMS
from regard.mechanisms.mechanism import make, parsed


def make_heads(
    attention: str,
    width: int,
    heads: int,
    *,
    score: Callable[[str], Any],
    named: str = "scaled_dot",
    map: Callable[..., Tensor],
    causal: bool,
    **more: Any,
) -> MultiHead:
    """Multi-head self-attention of a kind; `score` makes the score of a name, with the model's positions.

    `named` is the score that the configuration names: where it is the default, a mechanism has its own.
    """
    name, _ = parsed(attention)
    facts = MECHANISMS[name]
    if name == "full":
        return MultiHead(width, heads, score=score(named), map=map, **more)
    if causal and not facts.causal:
        able = ", ".join(other for other, entry in MECHANISMS.items() if entry.causal)
        raise ValueError(
            f"attention {name} cannot be causal, as it has to be here: {facts.why_not_causal}. Others can: "
            f"{able}."
        )
    chosen = facts.score if named == "scaled_dot" else named
    return make(attention, width, heads, score=score(chosen), map=map, **more)
