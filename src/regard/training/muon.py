"""Muon: steps of hidden layers' matrices are orthogonal; all other parameters take those of AdamW.

    M = β M + (1 − β) G,    U = (1 − β) G + β M
    W = W − rate · (κ √max(rows, columns) · orthogonal(U) + decay · W)

orthogonal(U) is the product of U's singular vectors, found by a few Newton–Schulz steps

    X = aX + (b XXᵀ + c (XXᵀ)²) X

that bring all singular values near 1: directions that gradients seldom take count as much as the others. The
factor makes a step about as large as one of AdamW, so that one rate suits both.

Jordan et al. (2024), "Muon: An optimizer for hidden layers in neural networks"; the factor: Liu et al.
(2025), "Muon is scalable for LLM training", arXiv:2502.16982, §2.2, with κ = 0.5 where they have 0.2.
torch.optim.Muon takes matrices alone and computes in bfloat16, which is slow on most CPUs.
"""

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn

from regard.training.sharding import parted, whole

STEPS, COEFFICIENTS = 4, (3.4445, -4.7750, 2.0315)  # of Newton–Schulz
MOMENTUM, FACTOR = 0.95, 0.5


class Muon(torch.optim.AdamW):
    """AdamW over parameters, and Muon over those of them that are in `matrices`."""

    def __init__(self, parameters: Iterable[Tensor], matrices: Iterable[Tensor], **settings: Any):
        super().__init__(parameters, **settings)
        self.matrices = list(matrices)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step; the gradients of matrices are used up by it."""
        (group,) = self.param_groups
        for matrix in self.matrices:
            if matrix.grad is None:
                continue
            state = self.state[matrix]
            if "momentum" not in state:  # AdamW expects steps to be counted
                state["step"], state["momentum"] = torch.tensor(0.0), torch.zeros_like(matrix)
            state["step"] += 1
            momentum = state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
            direction = orthogonal(whole(matrix.grad.lerp(momentum, MOMENTUM)).to(matrix.device))
            size = FACTOR * max(matrix.shape) ** 0.5
            matrix.mul_(1 - group["lr"] * group["weight_decay"])
            matrix.add_(parted(direction, matrix), alpha=-group["lr"] * size)
            matrix.grad = None
        found: float | None = super().step(closure)
        return found


def orthogonal(matrix: Tensor, steps: int = STEPS) -> Tensor:
    """The orthogonal factor U Vᵀ of a matrix U Σ Vᵀ, about: singular values come near 1."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def hidden_matrices(model: nn.Module) -> list[Tensor]:
    """The matrices of linear layers, without those of output layers over a vocabulary or classes."""
    return [
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and name.rsplit(".", 1)[-1] != "output"
        and min(module.weight.shape) > 1
    ]
