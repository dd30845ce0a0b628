"""The transitions of a chain as its users give them: a number, one matrix, or one for each row."""

import torch
from torch import Tensor

from regard.core.errors import DeviceError, ShapeError
from regard.core.shapes import check_float


def check_states(states: int | None, state: int = -1) -> int:
    """How many states there are, and that `state` is one of them."""
    if states is not None and states < 1:
        raise ValueError(f"states must be at least 1, or None for a binary chain; got {states}.")
    count = 2 if states is None else states
    if not -count <= state < count:
        raise ValueError(f"state must be one of the {count} states, {-count} to {count - 1}; got {state}.")
    return count


def matched(transitions: float | Tensor, scores: Tensor, states: int | None) -> Tensor:
    """Transitions (..., s, s) in the dtype of the scores, with as many axes before as these have rows."""
    s = 2 if states is None else states
    batch = scores.shape[: -1 if states is None else -2]
    if not isinstance(transitions, Tensor):
        transitions = transitions * torch.eye(s, dtype=scores.dtype, device=scores.device)
    check_float("transitions", transitions)
    if transitions.device != scores.device:
        raise DeviceError(
            f"transitions must be on {scores.device} as scores are; got {transitions.device}. "
            "Use transitions.to(scores.device)."
        )
    lead = transitions.shape[:-2]
    if transitions.shape[-2:] != (s, s):
        kind = "a binary chain" if states is None else f"states={states}"
        more = f" Use states={transitions.shape[-1]}." if states is None and transitions.dim() > 1 else ""
        raise ShapeError(
            f"transitions must be (..., {s}, {s}) for {kind}; got {tuple(transitions.shape)}.{more}"
        )
    if len(lead) > len(batch) or any(
        t not in (1, b) for t, b in zip(reversed(lead), reversed(batch), strict=False)
    ):
        raise ShapeError(
            f"transitions must broadcast to one ({s}, {s}) per row, {(*batch, s, s)}; "
            f"got {tuple(transitions.shape)}. Use (heads, 1, {s}, {s}) for one per head."
        )
    return transitions.to(scores.dtype).view(*(1,) * (len(batch) - len(lead)), *transitions.shape)
