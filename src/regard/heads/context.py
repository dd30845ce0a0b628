"""The context alone, for what takes tensors."""

from torch import Tensor, nn

from regard.attention import Attended


class Context(nn.Module):
    """The context of an `Attended`, as in `nn.Sequential(MultiHead(64), Context(), nn.Linear(64, 2))`."""

    def forward(self, attended: Attended) -> Tensor:
        """(..., m, width)."""
        return attended.context
