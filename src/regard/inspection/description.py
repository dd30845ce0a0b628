"""What a system is and what can be done with it, in plain types."""

from typing import Any

from torch import nn

from regard.core.errors import RunError
from regard.runs.readme import first_paragraph
from regard.tasks.system import System


def check_inspectable(system: System) -> None:
    """Raise RunError if there is nothing to inspect."""
    if not isinstance(system.model, nn.Module):
        what = f"{system.folder} holds a {system.task.makes}"
        raise RunError(f"{what}, which is no neural network: it has no weights to show.")


def describe(system: System) -> dict[str, Any]:
    """Its task, model, size and mechanism."""
    score, map_ = mechanism(system)
    return {
        "task": system.task.name,
        "model": str(system.settings.model["name"]),
        "parameters": sum(p.numel() for p in system.model.parameters()),
        "score": score,
        "map": map_,
        "facts": system.facts,
        "about": first_paragraph(system.folder) or system.purpose,
        "example": system.example,
        "examples": system.examples,
        "second": system.second_name if system.takes_second else "",
        "second_examples": system.second_examples,
        "units": system.units,
        "attends": bool(system.layers),
        "pictures": system.picture == "image",
        "changes": [*(["mask"] if system.masked_paths else []), *system.deletions],
    }


def mechanism(system: System) -> tuple[str, str]:
    """The score and the map of its attentions; "" if it has none."""
    model = system.settings.model if system.layers else {}
    name = system.map_name if system.layers else ""
    learned = " with learned α" if name and model.get("learn_alpha") else ""
    return str(model.get("score", "")), f"{name}{learned}"
