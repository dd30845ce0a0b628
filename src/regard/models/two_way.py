"""Both directions at once: two models that are trained together to look at each other.

    loss = −log p(t | s) − log p(s | t) − γ tr(A_{s→t} A_{t→s}ᵀ)

Each translates on its own; the bonus (`losses/trace.py`) is all they share. Without attention to the source
there is nothing to agree on.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.4.
Departs from the paper: both are trained from the beginning, not from two models trained before.
"""

from typing import Any

from torch import nn

from regard.models.sequence_model import SequenceModel


class TwoWay(nn.Module):
    """A model from source to target, one back, and how much their agreement is worth."""

    def __init__(self, ahead: SequenceModel[Any, Any], back: SequenceModel[Any, Any], gamma: float):
        super().__init__()
        self.ahead, self.back, self.gamma = ahead, back, gamma


def ahead_of(model: nn.Module) -> nn.Module:
    """The model from source to target."""
    return model.ahead if isinstance(model, TwoWay) else model
