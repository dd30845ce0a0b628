"""Gradient descent on what `regard swap --fit` learns: temperatures, α of each head, and weights of q and k.

    τ = exp(t),        α = 1 + σ(a),        both one for each head

    t, a and W_Q, W_K by Adam on −log p + c · mean t

With a price c, heads whose temperature matters little to the text get a lower one: fewer keys have weight.

Correia, Niculae & Martins (2019), "Adaptively Sparse Transformers", arXiv:1909.00015: α of each head.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.bridges.huggingface.head_settings import CHILD, HeadEntmax
from regard.core.errors import RunError

Q_AND_K = (("q_proj", "k_proj"), ("query", "key"), ("q", "k"), ("q_lin", "k_lin"))  # as models name them
NEAR = 1e-3  # α stays so far from 1 and 2 where it begins


@dataclass(frozen=True)
class Learned:
    """By path of the attention: temperatures (heads,), and α (heads,) if these are learned, too."""

    temperatures: dict[str, Tensor]
    alphas: dict[str, Tensor]


def descend(
    model: Any,
    rows: Tensor,
    start: Learned,
    *,
    steps: int,
    rate: float,
    tune: bool = False,
    tune_rate: float = 1e-4,
    price: float = 0.0,
    seed: int,
    say: Callable[[int, int], None],
) -> Learned:
    """Fit to rows of tokens (k, n), one a step, drawn from the seed; with `tune` the weights of q and k, too.

    These are changed in the model; the rest of it stays as it is.
    """
    logs = {path: nn.Parameter(one.log()) for path, one in start.temperatures.items()}
    logits = {
        path: nn.Parameter((one - 1).clamp(NEAR, 1 - NEAR).logit()) for path, one in start.alphas.items()
    }
    groups: list[dict[str, Any]] = [{"params": [*logs.values(), *logits.values()], "lr": rate}]
    weights = list(queries_and_keys(model, list(logs)).values()) if tune else []
    if weights:
        groups.append({"params": [one.requires_grad_() for one in weights], "lr": tune_rate})
    adam, draw = torch.optim.Adam(groups), torch.Generator().manual_seed(seed)
    rates = [group["lr"] for group in adam.param_groups]
    try:
        for step in range(steps):
            _put(model, logs, logits)
            row = rows[int(torch.randint(len(rows), (), generator=draw))]
            predicted = model(input_ids=row[None], use_cache=False).logits[0, :-1]
            loss = F.cross_entropy(predicted.float(), row[1:])
            loss = loss + price * torch.cat(list(logs.values())).mean()
            adam.zero_grad()
            loss.backward()
            for group, full in zip(adam.param_groups, rates, strict=True):
                group["lr"] = full * (1 - step / steps)
            adam.step()
            say(step + 1, steps)
    finally:
        for one in weights:
            one.requires_grad_(False)
            one.grad = None
    return Learned(
        {path: log.detach().exp() for path, log in logs.items()},
        {path: 1 + one.detach().sigmoid() for path, one in logits.items()},
    )


def _put(model: nn.Module, logs: dict[str, nn.Parameter], logits: dict[str, nn.Parameter]) -> None:
    """Temperatures and α as they are now, in the graph."""
    for path, log in logs.items():
        settings = model.get_submodule(path)._modules[CHILD]
        assert settings is not None
        settings._buffers["temperature"] = log.exp()
        if path in logits:
            map = settings.map
            assert isinstance(map, HeadEntmax)
            map._buffers["alpha"] = 1 + logits[path].sigmoid()


def queries_and_keys(model: nn.Module, paths: list[str]) -> dict[str, nn.Parameter]:
    """The weights and biases of the projections to queries and keys, by name."""
    found: dict[str, nn.Parameter] = {}
    for path in paths:
        module = model.get_submodule(path)
        names = next((pair for pair in Q_AND_K if all(hasattr(module, one) for one in pair)), None)
        if names is None:
            kind = type(module).__name__
            raise RunError(f"{kind} has no projections of q and k alone: they cannot be tuned.")
        for name in names:
            for own, parameter in module.get_submodule(name).named_parameters():
                found[f"{path}.{name}.{own}"] = parameter
    return found
