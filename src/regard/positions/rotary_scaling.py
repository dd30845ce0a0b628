"""Rotary positions for sequences longer than those of training: how the frequencies change.

    ω_i = base^{−2i/d},  i = 0 … d/2 − 1

A scaling makes other frequencies ω' of these, and may have a factor for queries and keys.

`Linear`: positions are divided by a factor, Chen et al. (2023), arXiv:2306.15595. `DynamicNTK`: a base that
grows with the sequence once it is longer than `longest`. `YaRN`: low frequencies are divided, high ones are
kept, with a ramp between, and q and k grow a little, Peng et al. (2023), arXiv:2309.00071, §3.2–3.4 (§3.3 has
the dynamic form). `Llama3`: the same idea with another ramp, Llama Team (2024), arXiv:2407.21783, as in its
published code.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Scaling(Protocol):
    """How frequencies depend on the number n of positions."""

    @property
    def by_length(self) -> bool:
        """Whether n matters: a cache then holds keys that are not rotated yet."""
        ...

    def frequencies(self, base: float, width: int, n: int) -> tuple[Tensor, float]:
        """(width / 2,) in float64, and the factor of queries and keys."""
        ...


def unscaled(base: float, width: int) -> Tensor:
    """ω_i = base^{−2i/width}, (width / 2,), in float64."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def _check(factor: float) -> None:
    if not factor >= 1:
        raise ValueError(f"factor must be at least 1; got {factor}.")


@dataclass(frozen=True)
class Linear:
    """Every position divided by a factor: ω' = ω / s."""

    factor: float
    by_length = False

    def __post_init__(self) -> None:
        _check(self.factor)

    def frequencies(self, base: float, width: int, n: int) -> tuple[Tensor, float]:
        return unscaled(base, width) / self.factor, 1.0


@dataclass(frozen=True)
class DynamicNTK:
    """Beyond `longest` positions base' = base · (s n / longest − (s − 1))^{d/(d−2)}."""

    factor: float
    longest: int
    by_length = True

    def __post_init__(self) -> None:
        _check(self.factor)

    def frequencies(self, base: float, width: int, n: int) -> tuple[Tensor, float]:
        grown = self.factor * max(n, self.longest) / self.longest - (self.factor - 1)
        power = width / (width - 2) if width > 2 else 1.0
        return unscaled(base * grown**power, width), 1.0


@dataclass(frozen=True)
class YaRN:
    """ω' between ω and ω / s by the number of turns in `longest` positions; q and k times 0.1 ln s + 1."""

    factor: float
    longest: int  # positions in training
    fast: float = 32.0  # turns from which a frequency is kept
    slow: float = 1.0  # turns up to which it is divided
    attention: float | None = None  # the factor of q and k, if another
    truncate: bool = True  # whether the ends of the ramp are whole numbers
    by_length = False

    def __post_init__(self) -> None:
        _check(self.factor)

    def frequencies(self, base: float, width: int, n: int) -> tuple[Tensor, float]:
        ends = [
            width * math.log(self.longest / (turns * 2 * math.pi)) / (2 * math.log(base))
            for turns in (self.fast, self.slow)
        ]
        if self.truncate:
            ends = [float(math.floor(ends[0])), float(math.ceil(ends[1]))]
        low, high = max(ends[0], 0.0), min(ends[1], width - 1.0)
        i = torch.arange(width // 2, dtype=torch.float64)
        ramp = ((i - low) / max(high - low, 0.001)).clamp(0, 1)  # 0: kept, 1: divided
        omega = unscaled(base, width)
        attention = 0.1 * math.log(self.factor) + 1 if self.attention is None else self.attention
        return omega * (1 - ramp) + omega / self.factor * ramp, attention


@dataclass(frozen=True)
class Llama3:
    """Wavelengths above longest / low are divided, those below longest / high kept, with a ramp between."""

    factor: float = 8.0
    longest: int = 8192  # positions in training
    low: float = 1.0
    high: float = 4.0
    by_length = False

    def __post_init__(self) -> None:
        _check(self.factor)

    def frequencies(self, base: float, width: int, n: int) -> tuple[Tensor, float]:
        omega = unscaled(base, width)
        turns = self.longest * omega / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return omega * kept + omega / self.factor * (1 - kept), 1.0
