"""Tables of heads as pictures: layers down, heads across, a map for each role or for each price."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.analyses import HeadRoles, Pruned


def roles_view(found: "list[HeadRoles]") -> Any:
    """What heads were found to do: for each role the share of every head where it is best."""
    import torch

    roles = list(dict.fromkeys(role for head in found for role in head.scores))
    layers, heads = found[-1].layer + 1, found[-1].head + 1
    shares = {role: torch.zeros(layers, heads, dtype=torch.float64) for role in roles}
    for head in found:
        for role in roles:
            if (score := head.best(role)) is not None:
                shares[role][head.layer, head.head] = score.score
    have = [f"{head.layer + 1}.{head.head + 1} {', '.join(head.roles)}" for head in found if head.roles]
    caption = (
        "The share of places at which a head does what the role says. Without looking one reaches "
        f"{', '.join(f'{role} {_yardstick(found, role)}' for role in roles)}. "
        + (f"Heads that have a role: {'; '.join(have)}." if have else "No head has a role.")
    )
    return _grid(shares, "What each head does", caption)


def gates_view(found: "list[Pruned]") -> Any:
    """Which heads are left at each price."""
    import torch

    named = {
        f"price {one.penalty:g}: {one.kept} of {one.heads}": torch.tensor(list(one.gates.values()))
        for one in found
    }
    return _grid(named, "Heads that are left", "The gate of each head; one that is closed is not drawn.")


def _yardstick(found: "list[HeadRoles]", role: str) -> str:
    known = {f"{score.yardstick:.2f}" for head in found if (score := head.best(role)) is not None}
    return min(known) if len(known) == 1 else f"{min(known)} to {max(known)}"


def _grid(named: Any, title: str, caption: str) -> Any:
    from regard.views import heat_map

    layers, heads = next(iter(named.values())).shape
    view = heat_map(
        named,
        [f"head {head + 1}" for head in range(heads)],
        [f"layer {layer + 1}" for layer in range(layers)],
        title=title,
        caption=caption,
    )
    return replace(view, note="")
