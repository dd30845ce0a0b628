"""The residual connection around a sublayer, its dropout and its layer norm.

    post-norm   LN(x + dropout(f(x)))          pre-norm   x + dropout(f(LN(x)))

Post-norm is the paper's and needs learning-rate warm-up; pre-norm trains without it.

Vaswani et al. (2017), arXiv:1706.03762, §3.1, §5.4. Xiong et al. (2020), "On Layer Normalization in the
Transformer Architecture", arXiv:2002.04745.
"""

from collections.abc import Callable

from torch import Tensor, nn

from regard.kernels.decoding.few_rows import is_bare
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import check_choice


class Residual(nn.Module):
    """Residual connection, dropout and layer norm around a sublayer; norm is "pre" or "post"."""

    def __init__(self, width: int, norm: str, dropout: float):
        super().__init__()
        self.pre = check_choice("norm", norm, ("pre", "post")) == "pre"
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x (..., width) to (..., width)."""
        if self.pre:
            added: Tensor = self.dropout(sublayer(self.norm(x)))
            return x + added
        normed: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return normed


def only_adds(residual: nn.Module) -> bool:
    """Whether it is x + f(LN(x)) now and nothing else: pre-norm, no dropout, no hooks, nothing replaced."""
    if type(residual) is not Residual or not residual.pre or type(residual.dropout) is not Dropout:
        return False
    dropout = residual.dropout
    return not (dropout.training and dropout.p) and is_bare(residual) and is_bare(dropout)
