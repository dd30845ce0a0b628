"""The map and the temperature of every head of one attention: a child of transformers' module, named regard.

A module without it is a softmax at temperature 1, as transformers has it. A temperature that is not learned
is in no state dict, so that `save_pretrained` writes what it wrote before.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from regard.maps.entmax import entmax
from regard.maps.softmax import softmax
from regard.maps.table import MAPS

CHILD = "regard"
Map = Callable[..., Tensor]


class HeadSettings(nn.Module):
    """A map for each of the heads, and a temperature for each: (heads,), or None where it is 1."""

    temperature: Tensor | None

    def __init__(self, maps: Sequence[Map], temperature: Tensor | None = None):
        super().__init__()
        self.maps = list(maps)  # one for each head
        self.map = self.maps[0] if all(one is self.maps[0] for one in self.maps) else ByHead(self.maps)
        if isinstance(temperature, nn.Parameter):
            self.temperature = temperature
        else:
            self.register_buffer("temperature", temperature, persistent=False)

    def extra_repr(self) -> str:
        names = dict.fromkeys(getattr(one, "__name__", type(one).__name__) for one in self.maps)
        return ", ".join(names) + ("" if self.temperature is None else ", with temperatures")


class HeadEntmax(nn.Module):
    """Entmax with one α for each head, (heads,): numbers that `save_pretrained` does not write."""

    facts = MAPS["entmax"]
    alpha: Tensor

    def __init__(self, alpha: Sequence[float] | Tensor):
        super().__init__()
        self.register_buffer("alpha", torch.as_tensor(alpha, dtype=torch.float32), persistent=False)

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., heads, m, n) to weights."""
        return entmax(scores, self.alpha.view(-1, 1, 1))


class ByHead(nn.Module):
    """A map that is another one for some heads: scores (b, heads, m, n), or with heads as two axes."""

    def __init__(self, maps: Sequence[Map]):
        super().__init__()
        self.functions: list[Map] = []
        self.heads: list[list[int]] = []
        for head, one in enumerate(maps):
            known = [i for i, function in enumerate(self.functions) if function is one]
            if known:
                self.heads[known[0]].append(head)
            else:
                self.functions.append(one)
                self.heads.append([head])
        self.modules_among_maps = nn.ModuleList(f for f in self.functions if isinstance(f, nn.Module))

    def forward(self, scores: Tensor) -> Tensor:
        flat = scores.flatten(1, -3)
        order = torch.tensor([head for some in self.heads for head in some], device=scores.device)
        parts = [f(flat[:, some]) for f, some in zip(self.functions, self.heads, strict=True)]
        return torch.cat(parts, 1)[:, order.argsort()].reshape(scores.shape)


def settings_of(module: nn.Module, heads: int) -> HeadSettings:
    """Those of a module of transformers."""
    found = module._modules.get(CHILD)
    return found if isinstance(found, HeadSettings) else HeadSettings([softmax] * heads)


def change_settings(
    module: nn.Module,
    count: int,
    map: Map,
    temperature: float | Sequence[float] | Tensor,
    heads: Sequence[int] | None,
) -> None:
    """Give some heads of a module, or all of them, this map and temperature."""
    before = settings_of(module, count)
    some = list(range(count)) if heads is None else [head % count for head in heads]
    if not all(-count <= head < count for head in heads or ()):
        raise ValueError(f"heads must be from 0 to {count - 1}; got {list(heads or ())}.")
    own = map
    if isinstance(map, nn.Module):
        near = next(module.parameters(), None)
        own = deepcopy(map) if near is None else deepcopy(map).to(near)
        own.train(module.training)
    maps = [own if head in some else one for head, one in enumerate(before.maps)]
    module.register_module(CHILD, HeadSettings(maps, _temperatures(before, temperature, some, count)))


def _temperatures(
    before: HeadSettings, given: float | Sequence[float] | Tensor, some: list[int], count: int
) -> Tensor | None:
    if isinstance(given, nn.Parameter):
        if given.shape != (count,) or len(some) != count:
            raise ValueError(f"a learned temperature is one for all {count} heads; got {tuple(given.shape)}.")
        return given
    new = torch.as_tensor(given, dtype=torch.float32).detach()
    if new.shape not in ((), (len(some),)) or not bool((new > 0).all()) or not bool(new.isfinite().all()):
        raise ValueError(
            f"temperature must be above 0: one number, or one for each of {len(some)} heads; got {given}."
        )
    found = torch.ones(count) if before.temperature is None else before.temperature.detach().float().clone()
    found[some] = new.to(found.device)
    return None if bool((found == 1).all()) else found
