"""Initialization of the recurrent models.

The papers draw all matrices from one narrow distribution, which gives activations of the right scale at 1,000
units; at other widths training is many times slower. "glorot" adapts to any width: variance
2 / (inputs + outputs).

Glorot & Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks";
orthogonal recurrent matrices: Saxe et al. (2014), arXiv:1312.6120.
"""

from torch import Tensor, nn

from regard.models.parts.named_components import check_choice
from regard.scores import Additive


def glorot(model: nn.Module) -> None:
    """Recurrent matrices orthogonal, embeddings ~ N(0, 1), other matrices Glorot uniform, biases 0."""
    for name, p in model.named_parameters():
        if "weight_hh" in name:
            _orthogonal(p)
        elif p.dim() > 1:
            nn.init.xavier_uniform_(p)
        elif "bias" in name:
            nn.init.zeros_(p)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)


def like_bahdanau(model: nn.Module) -> None:
    """Bahdanau et al. (2015), arXiv:1409.0473, §B.1: non-recurrent matrices ~ N(0, 0.01²), scores smaller."""
    for name, p in model.named_parameters():
        if "weight_hh" in name:
            _orthogonal(p)
        elif p.dim() > 1:
            nn.init.normal_(p, std=0.01)
        elif "bias" in name:
            nn.init.zeros_(p)
    for module in model.modules():
        if isinstance(module, Additive):
            nn.init.normal_(module.W1.weight, std=0.001)
            nn.init.normal_(module.W2.weight, std=0.001)
            nn.init.zeros_(module.v.weight)


def like_luong(model: nn.Module) -> None:
    """Luong et al. (2015), arXiv:1508.04025, §4.1: everything uniform between −0.1 and 0.1."""
    for name, p in model.named_parameters():
        if not name.startswith("attention.map"):  # a learned α keeps its initial value
            nn.init.uniform_(p, -0.1, 0.1)


PAPERS = {"bahdanau": like_bahdanau, "luong": like_luong}


def initialize(model: nn.Module, how: str, paper: str) -> None:
    """Initialize all parameters: `how` is "glorot" or "paper", `paper` a key of PAPERS."""
    (glorot if check_choice("initial", how, ("glorot", "paper")) == "glorot" else PAPERS[paper])(model)


def _orthogonal(gates: Tensor) -> None:
    """Initialize the stacked square matrices of a layer's gates: (gates · width, width)."""
    for gate in gates.data.split(gates.shape[1]):
        nn.init.orthogonal_(gate)
