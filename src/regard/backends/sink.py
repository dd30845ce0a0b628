"""The sink: one more key, which takes weight and has no value."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.core.shapes import check_float, widened
from regard.maps.table import facts_of


def set_sink(module: Any, sink: float | Tensor | None) -> None:
    """Give a module its sink: a parameter is learned, another tensor a buffer, a number fixed."""
    if isinstance(sink, bool):
        raise TypeError(
            "sink must be a number, or a score for each head: sink=0.0 is softmax plus one, "
            "sink=nn.Parameter(torch.zeros(heads)) is learned."
        )
    if isinstance(sink, Tensor) and not isinstance(sink, nn.Parameter):
        module.register_buffer("sink", sink)
    else:
        module.sink = sink


def takes_sink(map: Callable[..., Tensor]) -> bool:
    """Whether a sink has a meaning for a map: one more key, which has no place."""
    facts = facts_of(map)
    return facts is None or not (
        facts.acts_on == "matrix" or facts.neighbours or not facts.simplex or getattr(map, "states", None)
    )


def sink_scores(sink: float | Tensor, query: Tensor, map: Callable[..., Tensor]) -> Tensor:
    """The sink as a tensor (..., m or 1), where a sink has a meaning."""
    facts = facts_of(map)
    if facts is not None and not takes_sink(map):
        why = (
            "acts on whole matrices" if facts.acts_on == "matrix"
            else "has no weight of 1 to share out" if not facts.simplex
            else "depends on the order of the keys"
        )  # fmt: skip
        raise ValueError(f"a sink is one more key without a place: {facts.name} {why}, so it takes none.")
    if not isinstance(sink, Tensor):
        return torch.full((1,), sink, dtype=widened(query).dtype, device=query.device)
    check_float("sink", sink)
    found = sink.unsqueeze(-1) if sink.dim() == 1 else sink.reshape(1) if sink.dim() == 0 else sink
    wanted = query.shape[:-1]
    if found.dim() > len(wanted) or any(
        a not in (1, b) for a, b in zip(reversed(found.shape), reversed(wanted), strict=False)
    ):
        raise ShapeError(
            f"sink must be a number, one for each head (heads,), or broadcast to (..., heads, m) = "
            f"{tuple(wanted)}; got {tuple(sink.shape)}."
        )
    return found
