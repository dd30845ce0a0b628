"""What a system is and what can be done with it, in plain types."""

from typing import Any

from torch import nn

from regard.core.errors import RunError
from regard.tasks.system import System


def check_inspectable(system: System) -> None:
    """Raise RunError if there is nothing to inspect."""
    if not isinstance(system.model, nn.Module):
        raise RunError(
            f"{system.folder} holds a {system.task.makes}, which is no neural network: "
            "it has no weights to show."
        )


def describe(system: System) -> dict[str, Any]:
    """Its task, model, size and mechanism."""
    return {
        "task": system.task.name,
        "model": str(system.settings.model["name"]),
        "parameters": sum(p.numel() for p in system.model.parameters()),
        "score": score_of(system),
        "map": map_of(system),
        "facts": system.facts,
        "example": system.example,
        "second": system.takes_second,
        "changes": ["mask", "delete"] if system.masked_paths else ["delete"],
    }


def score_of(system: System) -> str:
    """The score of its attentions; "" if it has none."""
    return str(system.settings.model.get("score", "")) if system.layers else ""


def map_of(system: System) -> str:
    """The map of its attentions; "" if it has none."""
    model = system.settings.model
    name = str(model.get("map", "")) if system.layers else ""
    return f"{name} with learned α" if name and model.get("learn_alpha") else name
