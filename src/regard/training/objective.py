"""The loss of a batch and its gradients, which several processes have together.

DDP (Li et al. 2020, "PyTorch Distributed", arXiv:2006.15704) gives each the mean of all gradients while the
backward pass still goes on. Here their sum is wanted, to be divided by the number of tokens in all.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.training.processes import Team
from regard.training.progress import Problem


class Objective:
    """What is minimised; a model that is shared out exchanges its gradients itself."""

    def __init__(self, model: nn.Module, problem: Problem, team: Team, *, sharded: bool, half: bool):
        self.size, self.half = team.size, half
        self.device = next(model.parameters()).device
        self.loss: nn.Module = _Loss(model, problem)
        self.copies = DistributedDataParallel(self.loss) if team.size > 1 and not sharded else None

    def precision(self) -> torch.autocast:
        """A context in which the model computes in bfloat16, if that is wanted."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.half)

    def backward(self, batch: Any, *, last: bool) -> tuple[float, int]:
        """Add a batch's gradients, with the last one those of all processes; this one's loss and tokens."""
        copies = self.copies
        with nullcontext() if copies is None or last else copies.no_sync():
            with self.precision():
                loss, tokens = (copies or self.loss)(batch)
            (loss * self.size if self.size > 1 else loss).backward()  # a mean of these is the sum
        return loss.item(), tokens


class _Loss(nn.Module):
    """The loss of a problem as a module: DDP must wrap all that calls the model."""

    def __init__(self, model: nn.Module, problem: Problem):
        super().__init__()
        self.model, self.problem = model, problem

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        return self.problem.loss(self.model, batch)
