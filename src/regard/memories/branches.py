"""Key/value caches of hypotheses that branch, as in beam search, for all layers of a decoder.

Positions are the first axis: keys (capacity, rows, heads, d). What was written at a position stays there;
`ancestors` (t, r) has the row of hypothesis r at each position, and reordering hypotheses reorders only that
table. States share their buffers; a state that continues where another has already written gets new buffers.
With gradients, tensors are concatenated, which keeps the autograd graph.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

ROOM = 16  # least spare capacity, in positions


@dataclass(frozen=True, eq=False)
class Branches:
    """The keys and values of r hypotheses so far, in every layer."""

    ancestors: Tensor  # (t, r)
    layers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # keys and values
    taken: list[int] = field(default_factory=lambda: [0])  # positions taken by any state with these buffers
    fresh: bool = True  # whether the next position needs new buffers

    @classmethod
    def start(cls, rows: int, device: torch.device) -> "Branches":
        """Empty caches for this number of hypotheses."""
        return cls(torch.empty(0, rows, dtype=torch.long, device=device))

    def __len__(self) -> int:
        return len(self.ancestors)

    def select(self, index: Tensor) -> "Branches":
        """These hypotheses (r',), in this order."""
        return replace(self, ancestors=self.ancestors.index_select(1, index))

    def grown(self) -> "Branches":
        """With one more position, whose keys and values are to be written in every layer."""
        t, rows = self.ancestors.shape
        full = any(t >= keys.shape[0] or rows > keys.shape[1] for keys, _ in self.layers.values())
        fresh = full or not self.layers or self.taken[0] != t
        taken = [t + 1] if fresh else self.taken
        taken[0] = t + 1
        own = torch.arange(rows, device=self.ancestors.device).unsqueeze(0)
        return Branches(torch.cat([self.ancestors, own]), dict(self.layers), taken, fresh)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values (r, heads, d) of the last position; returns the whole buffers."""
        old = self.layers.get(layer, (None, None))
        held = self._written(old[0], keys), self._written(old[1], values)
        self.layers[layer] = held
        return held

    def of(self, layer: int) -> tuple[Tensor, Tensor]:
        """The keys and values of every hypothesis, (r, heads, t, d), gathered."""
        places = torch.arange(len(self), device=self.ancestors.device).unsqueeze(-1)
        keys, values = (held[places, self.ancestors].permute(1, 2, 0, 3) for held in self.layers[layer])
        return keys, values

    def _written(self, buffer: Tensor | None, x: Tensor) -> Tensor:
        t, rows = len(self) - 1, len(x)
        if torch.is_grad_enabled() and (x.requires_grad or (buffer is not None and buffer.requires_grad)):
            if buffer is None:
                return x.unsqueeze(0)
            most = max(buffer.shape[1], rows)
            before, now = _wide(buffer[:t], most), _wide(x.unsqueeze(0), most)
            return torch.cat([before, now])
        if buffer is None or self.fresh:
            most = rows if buffer is None else max(buffer.shape[1], rows)
            room = x.new_empty(t + max(ROOM, t // 2), most, *x.shape[1:])
            if buffer is not None:
                room[:t, : buffer.shape[1]] = buffer[:t]
            buffer = room
        buffer[t, :rows] = x
        return buffer


def _wide(x: Tensor, rows: int) -> Tensor:
    """x (t, r, heads, d) padded to this number of rows."""
    return F.pad(x, (0, 0, 0, 0, 0, rows - x.shape[1]))
