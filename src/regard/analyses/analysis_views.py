"""Pictures of what analyses found: roles and gates as grids of layers × heads, codelengths as bars."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.analyses.probing import Probed, ProbingData
from regard.analyses.pruning import Pruned
from regard.analyses.roles import HeadRoles
from regard.views import bars, heat_map
from regard.views.base_view import View


def roles_view(found: Sequence[HeadRoles]) -> View:
    """What heads were found to do: for each role the share of every head where it is best."""
    roles = list(dict.fromkeys(role for head in found for role in head.scores))
    shares = {
        role: torch.zeros(found[-1].layer + 1, found[-1].head + 1, dtype=torch.float64) for role in roles
    }
    baselines: dict[str, set[str]] = {role: set() for role in roles}
    for head in found:
        for role in roles:
            if (score := head.best(role)) is not None:
                shares[role][head.layer, head.head] = score.score
                baselines[role].add(f"{score.baseline:.2f}")
    reached = ", ".join(f"{role} {' to '.join(sorted({min(y), max(y)}))}" for role, y in baselines.items())
    have = [f"{head.layer + 1}.{head.head + 1} {', '.join(head.roles)}" for head in found if head.roles]
    caption = (
        "The share of places at which a head does what the role says. Without looking one reaches "
        f"{reached}. " + (f"Heads that have a role: {'; '.join(have)}." if have else "No head has a role.")
    )
    return _grid(shares, "What each head does", caption)


def gates_view(found: Sequence[Pruned]) -> View:
    """Which heads are left at each price."""
    named = {
        f"price {one.penalty:g}: {one.kept} of {one.heads}": torch.tensor(list(one.gates.values()))
        for one in found
    }
    return _grid(named, "Heads that are left", "The gate of each head; one that is closed is not drawn.")


def codelengths_view(found: Sequence[Probed], task: str, code: str, words: ProbingData) -> View:
    """Codelengths by layer, of the task and of its control."""
    lengths = {
        task: torch.tensor([one.real.bits / 1000 for one in found]),
        "control task": torch.tensor([one.control.bits / 1000 for one in found]),
    }
    caption = (
        f"Bits for the labels of {len(words.labels):,} words, given the states of a layer; layer 0 is what "
        f"the first one reads. Without any knowledge {found[0].real.uniform / 1000:.1f} kbit, by frequency "
        f"{words.by_frequency / 1000:.1f}. What is saved on the control task is memorised."
    )
    layers = [str(one.layer) for one in found]
    return bars(lengths, layers, unit="kbit", title=f"{task} by layer, {code} code", caption=caption)


def _grid(named: Mapping[str, Tensor], title: str, caption: str) -> View:
    layers, heads = next(iter(named.values())).shape
    across = [f"head {head + 1}" for head in range(heads)]
    down = [f"layer {layer + 1}" for layer in range(layers)]
    return replace(heat_map(named, across, down, title=title, caption=caption), note="")
