"""Pruning heads: a gate on every head, and a penalty for each that stays open.

    z = W_o [g₁z₁; …; g_h z_h]        min  loss + λ Σᵢ P(gᵢ > 0)

The gates follow the Hard Concrete distribution, with mass at 0 and 1 and a density between them, so that the
L0 penalty has a gradient. A trained model is trained further, together with its gates. Finally the gates,
without noise, are multiplied into W_o: a head whose gate is 0 adds nothing, and the model is an ordinary one.

Voita et al. (2019), arXiv:1905.09418, §6; Hard Concrete: Louizos, Welling & Kingma (2018), arXiv:1712.01312.
Departs from the paper: gates have a higher learning rate than weights, so that some hundred steps suffice.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.heads import MultiHead
from regard.models.parts.hard_concrete import deterministic_gates, open_probability, sample_gates
from regard.recording import attentions
from regard.training.progress import Problem

OPEN = 2.0  # initial θ of a gate: open with probability 0.97
GATE_RATE = 0.05


@dataclass(frozen=True, eq=False)
class Pruned:
    """A model with fewer heads."""

    penalty: float  # λ
    gates: dict[str, list[float]]  # of each attention's heads, by path; 0 is closed
    before: dict[str, float]  # validation figures of the model
    after: dict[str, float]
    model: nn.Module = field(repr=False)  # a copy, with the gates in its weights

    @property
    def kept(self) -> int:
        """How many heads are open."""
        return sum(gate > 0 for gates in self.gates.values() for gate in gates)

    @property
    def heads(self) -> int:
        """How many there were."""
        return sum(map(len, self.gates.values()))


class HeadGates(nn.Module):
    """A gate for every head of some attentions of a model."""

    def __init__(self, parts: dict[str, MultiHead]):
        super().__init__()
        self.paths = list(parts)
        self.theta = nn.ParameterList(
            nn.Parameter(torch.full((part.heads,), OPEN, device=part.W_o.weight.device))
            for part in parts.values()
        )

    def price(self) -> Tensor:
        """The expected number of open heads."""
        return torch.cat([open_probability(theta) for theta in self.theta]).sum()

    def values(self) -> list[Tensor]:
        """The gates (heads,) of each attention, without noise."""
        return [deterministic_gates(theta).detach() for theta in self.theta]

    @contextmanager
    def before(self, parts: dict[str, MultiHead], chance: torch.Generator) -> Iterator[None]:
        """In this block, inputs of output projections are multiplied by gates, drawn anew in each call."""

        def gate(theta: Tensor) -> Callable[[nn.Module, Any], Any]:
            def multiply(_: nn.Module, given: tuple[Tensor]) -> Tensor:
                noise = torch.rand(theta.shape, generator=chance).to(theta)
                return scaled(given[0], sample_gates(theta, noise))

            return multiply

        hooks = [
            part.W_o.register_forward_pre_hook(gate(theta))
            for part, theta in zip(parts.values(), self.theta, strict=True)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def scaled(joined: Tensor, gates: Tensor) -> Tensor:
    """Concatenated heads (..., heads · each), each times its gate (heads,)."""
    apart: Tensor = joined.unflatten(-1, (len(gates), -1))  # (..., heads, each)
    return (apart * gates.to(joined).unsqueeze(-1)).flatten(-2)


def prune(
    model: nn.Module,
    problem: Problem,
    penalty: float,
    *,
    paths: str | Sequence[str] = "encoder.*.attention",
    steps: int = 500,
    rate: float = 1e-4,
    seed: int = 0,
    listen: Callable[[int], None] | None = None,
) -> Pruned:
    """Train a copy of a model further, with gates on its heads at a penalty λ each.

    The loss is that of the problem, per token. The model itself is not changed.
    """
    if not (penalty >= 0 and math.isfinite(penalty)):
        raise ValueError(f"penalty must be at least 0 and finite; got {penalty}.")
    if steps < 1:
        raise ValueError(f"steps must be at least 1; got {steps}.")
    before = measured(model, problem)
    pruned = deepcopy(model)
    parts = gated(pruned, paths)
    gates, chance = HeadGates(parts), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(
        [
            {"params": list(pruned.parameters()), "lr": rate},
            {"params": list(gates.parameters()), "lr": GATE_RATE},
        ],
        betas=(0.9, 0.98),
    )
    pruned.train()
    with torch.enable_grad(), torch.random.fork_rng(devices=[]), gates.before(parts, chance):
        torch.manual_seed(seed)
        for step, batch in zip(range(1, steps + 1), endless(problem), strict=False):
            loss, count = problem.loss(pruned, batch)
            optimiser.zero_grad()
            (loss / max(count, 1) + penalty * gates.price()).backward()
            nn.utils.clip_grad_norm_(pruned.parameters(), 1.0)
            optimiser.step()
            if listen is not None:
                listen(step)
    values = gates.values()
    for part, gate in zip(parts.values(), values, strict=True):
        with torch.no_grad():
            part.W_o.weight.copy_(scaled(part.W_o.weight, gate))
    found = {path: gate.tolist() for path, gate in zip(parts, values, strict=True)}
    return Pruned(penalty, found, before, measured(pruned, problem), pruned.eval())


def gated(model: nn.Module, paths: str | Sequence[str]) -> dict[str, MultiHead]:
    """The multi-head attentions whose paths match, by path."""
    found = {path: part for part, path in attentions(model, paths).items() if isinstance(part, MultiHead)}
    if not found:
        raise ValueError(f"no attention with several heads at {paths}: there is nothing to prune.")
    return found


def measured(model: nn.Module, problem: Problem) -> dict[str, float]:
    """The validation figures of a model, whose mode (training or not) is kept."""
    training = model.training
    with torch.no_grad():
        found = problem.validate(model.eval())
    model.train(training)
    return found


def endless(problem: Problem) -> Iterator[Any]:
    """The batches of a problem, epoch after epoch."""
    epoch = 0
    while True:
        some = False
        for batch in problem.batches(epoch, 0):
            some = True
            yield batch
        if not some:
            raise ValueError("there is nothing to train on: the data have no batch.")
        epoch += 1
