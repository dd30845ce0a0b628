"""Pictures of what only language models have: spans and α of heads, gates of cells, memories of segments."""

from typing import Any

import torch

from regard.core.errors import RunError
from regard.recording import record
from regard.tasks.language_system import LanguageSystem
from regard.views import heat_map
from regard.views.base_view import View

SHOWN = 24  # coordinates of a gate that are drawn


def heads_view(system: LanguageSystem) -> View:
    """One number for each head, layers down and heads across: its span in tokens, or its α."""
    model: Any = system.model
    values = getattr(model, "spans", None)
    what = "Span of each head, in tokens: how far back it looks."
    if values is None:
        values, what = getattr(model, "alphas", None), "α of each head: 1 is softmax, 2 is sparsemax."
    if values is None:
        raise RunError(
            f"{system.settings.model['name']} has no spans and no α to show: they are learned by "
            "adaptive_span and adaptively_sparse."
        )
    layers, heads = values.shape
    return heat_map(
        values.detach(),
        [f"head {k + 1}" for k in range(heads)],
        [f"layer {k + 1}" for k in range(layers)],
        caption=what,
    )


def gates_view(system: LanguageSystem, text: str, layer: int = -1) -> View:
    """The gates of a recurrent model while it reads a text: tokens across, coordinates down."""
    if not hasattr(system.model, "gates") or not callable(system.model.gates) or not system.model.carries:
        raise RunError(f"{system.settings.model['name']} has no gates to show: recurrent has.")
    ids = system.prompt(text)
    found = system.model.gates(torch.tensor([ids], device=system.device))[layer]
    if not found:
        raise RunError("a plain recurrent network has no gates: use model.cell lstm or gru.")
    named = {name: gate[0, :, :SHOWN].T for name, gate in found.items()}
    rows = [str(k + 1) for k in range(min(SHOWN, system.model.config.width))]
    return heat_map(named, system.tokenizer.pieces(ids), rows, caption="Gates: 0 is shut, 1 is open.")


def memory_view(system: LanguageSystem, text: str, layer: int = -1) -> View:
    """Where the last segment of a text looks: compressed memory, memory and its own tokens, heads averaged.

    Compressed states are named c1, c2, …, from the oldest on.
    """
    if not hasattr(system.model.config, "memory") or not system.layers:
        raise RunError(f"{system.settings.model['name']} has no memory of segments: transformer_xl has.")
    ids = system.prompt(text)
    *earlier, last = torch.tensor([ids], device=system.device).split(system.context, 1)
    state: dict[str, torch.Tensor] | None = None
    with torch.no_grad():
        for part in earlier:
            _, state = system.model(part, state)
        with record(system.model, system.layers) as seen:
            system.model(last, state)
    weights = seen[system.layers[layer]][-1].over_tokens[0]  # (heads, m, n)
    m, n = weights.shape[-2:]
    names = system.tokenizer.pieces(ids)
    compressed = state["compressed"].shape[-2] if state is not None and "compressed" in state else 0
    columns = [f"c{k + 1}" for k in range(compressed)] + names[len(ids) - (n - compressed) :]
    return heat_map(weights.mean(0), columns, names[-m:], caption="The last segment, over memory and itself.")
