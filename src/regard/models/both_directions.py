"""Two translation models, one per direction, trained jointly so that their attentions agree.

    loss = −log p(t | s) − log p(s | t) − γ tr(A_{s→t} A_{t→s}ᵀ)

The models share no parameters, only the agreement term (`losses/trace.py`). Both need attention to the
source.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.4.
Departs from the paper: both are trained from scratch, not from two pretrained models.
"""

from typing import Any

from torch import nn

from regard.models.sequence_model import SequenceModel


class TwoWay(nn.Module):
    """A model from source to target (`ahead`), one from target to source (`back`), and the strength γ."""

    def __init__(self, ahead: SequenceModel[Any, Any], back: SequenceModel[Any, Any], gamma: float):
        super().__init__()
        self.ahead, self.back, self.gamma = ahead, back, gamma


def ahead_of(model: nn.Module) -> nn.Module:
    """The model from source to target: `model.ahead` of a TwoWay, otherwise the model itself."""
    return model.ahead if isinstance(model, TwoWay) else model
