"""Softmax: weights proportional to the exponential of the scores.

    π(θ) = argmax_{p ∈ Δⁿ} pᵀθ − γ Σⱼ pⱼ log pⱼ = exp(θ/γ) / Σₖ exp(θₖ/γ)

Every key that may be looked at has some weight. The temperature γ moves between the uniform distribution
(large γ) and argmax (γ near 0). Unlike `torch.softmax`, a row that is all −inf has weights and gradient 0,
not NaN.

Boltzmann (1868); in neural networks Bridle (1990), "Probabilistic Interpretation of Feedforward
Classification Network Outputs".
"""

from collections.abc import Callable
from math import isnan
from typing import Never

import torch
from torch import Tensor

from regard.core.shapes import check, check_float, widened
from regard.kernels.common.operator import is_plain
from regard.maps.table import check_call, register


def tempered(scores: Tensor, temperature: float | Tensor) -> Tensor:
    """Divide scores (..., n) by a temperature above 0, a number or a tensor that broadcasts to them.

    Keys at −inf have no part in the gradient of the temperature. The values of a tensor are not checked.
    """
    if isinstance(temperature, Tensor):
        check_float("temperature", temperature)
        hidden = scores == -torch.inf
        return torch.where(hidden, -torch.inf, torch.where(hidden, 0, scores) / temperature)
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0; got {temperature}. For its limit at 0 use argmax.")
    return scores if temperature == 1 else scores / temperature


def from_top(scores: Tensor) -> Tensor:
    """Scores (..., n) with the highest at 0, so that no temperature makes it infinite.

    The others stay finite; the gradient of what does not depend on Σⱼ θⱼ is the same.
    """
    if not scores.shape[-1]:
        return scores
    top = scores.detach().amax(-1, keepdim=True)  # (..., 1)
    below = scores - torch.where(top.isfinite(), top, 0)
    return torch.where(scores == -torch.inf, scores, below.clamp(min=torch.finfo(below.dtype).min))


def _with_empty_rows(scores: Tensor) -> Tensor:
    empty = (scores == -torch.inf).all(-1, keepdim=True)  # (..., 1)
    return torch.where(empty, 0, torch.softmax(torch.where(empty, 0, scores), -1))


@register(guard=False)
def softmax(scores: Tensor, temperature: float | Tensor = 1.0, **other: Never) -> Tensor:
    """Map scores (..., n) to weights (..., n), all above 0 but for scores of −inf."""
    check_call("softmax", scores, other)
    if scores.dim() == 0:
        check("scores", scores, "... n")
    if isinstance(temperature, Tensor) or temperature != 1:  # torch.softmax itself widens half precision
        return softmax(tempered(from_top(widened(scores)), temperature)).to(scores.dtype)
    if not is_plain(scores):
        return _with_empty_rows(scores)
    weights = torch.softmax(scores, -1)
    if weights.numel() and isnan(
        weights.select(-1, 0).sum().item()
    ):  # a row without keys, or one to stay NaN
        return _with_empty_rows(scores)
    return weights


def _spells(temperature: float | Tensor = 1.0, **other: Never) -> tuple[Callable[..., Tensor], float] | None:
    """Softmax of scores over a fixed temperature."""
    if other or isinstance(temperature, Tensor) or not temperature > 0:
        return None
    return softmax, 1 / temperature


softmax.spells = _spells  # type: ignore[attr-defined]
