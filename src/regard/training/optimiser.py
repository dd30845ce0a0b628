"""The optimiser, and its memory as whole tensors by name: the number of the parameter, then what it is."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.training.muon import Muon, hidden_matrices
from regard.training.sharding import parted, whole
from regard.training.training_settings import Training


def optimiser(model: nn.Module, settings: Training) -> torch.optim.Optimizer:
    """Adam, AdamW, Muon or stochastic gradient descent over all that is learned."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if settings.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=settings.rate, weight_decay=settings.decay, foreach=True)
    given: dict[str, Any] = {
        "lr": settings.rate, "betas": (settings.beta1, settings.beta2), "eps": 1e-9,
        "weight_decay": settings.decay, "foreach": True,
    }  # fmt: skip
    if settings.optimiser == "muon":
        return Muon(parameters, [p for p in hidden_matrices(model) if p.requires_grad], **given)
    return (torch.optim.Adam if settings.optimiser == "adam" else torch.optim.AdamW)(parameters, **given)


def memory_of(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What it remembers; of a shared model, all processes must ask."""
    return {
        f"{index}.{name}": whole(tensor) for index, held in optimiser.state_dict()["state"].items()
        for name, tensor in held.items()
    }  # fmt: skip


def put_memory(optimiser: torch.optim.Optimizer, memory: dict[str, Tensor]) -> None:
    """Let it remember what `memory_of` gave."""
    (group,) = optimiser.state_dict()["param_groups"]
    parameters: list[Tensor] = optimiser.param_groups[0]["params"]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in memory.items():
        index, _, what = name.partition(".")
        known = index.isdecimal() and int(index) < len(parameters)
        if not known or tensor.shape not in (parameters[int(index)].shape, ()):
            raise WeightsError(f"the optimiser's memory in the last checkpoint is of another model ({name}).")
        state.setdefault(int(index), {})[what] = parted(tensor, parameters[int(index)])
    optimiser.load_state_dict({"state": state, "param_groups": [group]})
