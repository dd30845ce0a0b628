"""BigBird: each block of queries sees its neighbours, a few random blocks, and the first blocks.

    near: `near` blocks to each side      random: `random` blocks      first: `first` blocks, which see all

It costs n · block · d.

Random blocks come from the seed in the settings: the same in every call and every process. They are chosen
among those that hold any token of the sequence, under a causal mask among earlier ones, whatever n is. Fewer
tokens than one block are refused, not given full attention. If near and first blocks are all there are, it is
full attention. Any row map.

`Attended.weights` are (..., heads, m, n), 0 outside the blocks.

Zaheer et al. (2020), "Big Bird: Transformers for Longer Sequences", arXiv:2007.14062, §2.
Departs from the paper: all heads have the same random blocks.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import attend
from regard.backends.call import Call
from regard.core.errors import SettingsError
from regard.core.shapes import widened
from regard.masks import Mask
from regard.mechanisms.key_blocks import around, attend_blocks
from regard.mechanisms.mechanism import Core, Heads, Mechanism, Pattern, at_least_one, joined, register


def priorities(rows: int, seed: int, device: torch.device) -> Tensor:
    """A pseudo-random number for each pair of blocks, (rows, rows), which does not depend on how many."""
    i = torch.arange(rows, dtype=torch.int64).unsqueeze(-1)
    x = i * 0x9E3779B1 + torch.arange(rows, dtype=torch.int64) * 0x85EBCA77 + (seed + 1) * 0xC2B2AE3D
    for _ in range(2):  # mixing steps of a hash of 32 bits
        x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
        x = ((x ^ (x >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return (x ^ (x >> 15)).to(device)


class BigBirdPattern(Pattern):
    """Which blocks see which, by position."""

    def __init__(
        self, block: int, near: int, random: int, first: int, seed: int, causal: bool, shown: Tensor | None
    ):
        self.block, self.near, self.random, self.first = block, near, random, first
        self.seed, self.causal = seed, causal
        self.shown = None if shown is None else shown.squeeze(-2)  # (..., n)

    def random_blocks(self, blocks: int, device: torch.device) -> Tensor:
        """The random blocks of each block, (..., blocks, random); −1: none is left to choose."""
        rank = priorities(blocks, self.seed, device)
        i, j = torch.arange(blocks, device=device).unsqueeze(-1), torch.arange(blocks, device=device)
        free = (j < i - self.near) if self.causal else (i - j).abs() > self.near
        free = free & (j >= self.first)
        if self.shown is not None and not self.causal:
            more = blocks * self.block - self.shown.shape[-1]
            there = F.pad(self.shown, (0, max(more, 0))).unflatten(-1, (-1, self.block)).any(-1)
            free = free & there[..., :blocks].unsqueeze(-2)
        top, at = torch.where(free, rank, -1).topk(min(self.random, blocks), -1)
        return torch.where(top >= 0, at, -1)

    def sees(self, i: Tensor, j: Tensor, n: int) -> Tensor:
        row, column = i // self.block, j // self.block
        blocks = max(-(-n // self.block), int(row.max()) + 1 if row.numel() else 1)
        chosen = self.random_blocks(blocks, i.device)  # (blocks, random)
        table = torch.zeros(*chosen.shape[:-1], blocks + 1, dtype=torch.bool, device=i.device)
        table.scatter_(-1, torch.where(chosen >= 0, chosen, blocks), True)
        by_chance = table[..., row, column.clamp(max=blocks)]
        return ((row - column).abs() <= self.near) | (column < self.first) | (row < self.first) | by_chance


class BigBirdCore(Core):
    """Attention to near, random and first blocks."""

    def __init__(
        self, each: int, heads: int, *, block: int = 32, near: int = 1, random: int = 2, first: int = 1,
        seed: int = 0,
    ):  # fmt: skip
        super().__init__(each, heads)
        at_least_one(self.name, block=block, near=near)
        if random < 0 or first < 0:
            raise ValueError(f"bigbird: random and first must be at least 0; got {random} and {first}.")
        self.block, self.near, self.random, self.first, self.seed = block, near, random, first, seed

    def pattern(self, causal: bool, shown: Tensor | None) -> BigBirdPattern:
        """Who sees whom."""
        return BigBirdPattern(self.block, self.near, self.random, self.first, self.seed, causal, shown)

    def definition(self, heads: Heads, causal: bool, shown: Tensor | None) -> Call:
        call = heads.call
        if call.n < self.block and not heads.cached:
            raise SettingsError(
                f"bigbird attends by blocks of {self.block} tokens; got n={call.n}. Make it with a smaller "
                "block, or use full or local."
            )
        mask: Mask = joined(self.pattern(causal, shown), call.mask)
        return replace(call, mask=mask, sees=call.sees)

    def context(self, heads: Heads, call: Call, causal: bool, shown: Tensor | None) -> Tensor | None:
        if not heads.whole:
            return None
        pattern, n = self.pattern(causal, shown), call.n
        blocks = -(-n // self.block)
        if blocks <= self.first + self.near + 1:
            return None
        factors = self.factors(call)
        device = call.query.device
        near, chosen = around(blocks, self.near, causal, device), pattern.random_blocks(blocks, device)
        columns = torch.cat([near.expand(*chosen.shape[:-1], -1), chosen], -1)
        head = self.first * self.block
        found = attend_blocks(
            call, factors, self.block, columns, None, causal=causal, shown=shown, first=head
        )
        if not head or causal:  # under a causal mask the first blocks see what is near
            return found
        (a, b), v = factors, widened(call.values)
        every = attend(a[..., :head, :], b, v, score="dot", map=call.map, mask=shown, dropout=call.dropout)
        return torch.cat([every.context, found[..., head:, :]], -2)

    def extra_repr(self) -> str:
        return f"block={self.block}, near={self.near}, random={self.random}, first={self.first}"


@register(maps=True)
class BigBird(Mechanism):
    """Multi-head attention to near, random and first blocks."""

    core_kind = BigBirdCore
