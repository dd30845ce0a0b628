"""The addressing of a Neural Turing Machine as pure functions: content, gate, shift, sharpen; read, write.

    content      w^c = softmax(β cos(k, M_i))
    gate         w^g = g w^c + (1 − g) w_{t−1}
    shift        w̃_i = Σ_j w^g_{i−j} s_j                      circular: the last location is next to the first
    sharpen      w_i = w̃_i^γ / Σ_j w̃_j^γ = softmax(γ log w̃)_i
    read         r = Σ_i w_i M_i
    write        M_i ← M_i ∘ (1 − w_i e) + w_i a

n locations of width d. Weights (..., n) are in the simplex after every step, for all finite inputs.
Sharpening by powers divides by 0 once all powers underflow, which is where NaN comes from; by logarithms,
with the largest subtracted, it cannot.

Graves, Wayne & Danihelka (2014), "Neural Turing Machines", arXiv:1410.5401, §3.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention import Attention, attend
from regard.scores.cosine import direction

LARGEST = 1e6  # of β and γ: from here on weights no longer change


class Address(NamedTuple):
    """What a head says about where to look, of any number of heads."""

    key: Tensor  # k: (..., d)
    strength: Tensor  # β: (...), at least 0
    gate: Tensor  # g: (...), between 0 and 1
    shifts: Tensor  # s: (..., 2r + 1), in the simplex: by −r, …, r locations
    sharpness: Tensor  # γ: (...), at least 1


def content(key: Tensor, strength: Tensor, memory: Tensor, attention: Attention | None = None) -> Tensor:
    """Weights (..., h, n) by similarity: h keys (..., h, d) of strengths (..., h) and a memory (..., n, d).

    `attention` is called where somebody may want to record it; its score must be the dot product.
    """
    query = direction(key) * strength.clamp(max=LARGEST).unsqueeze(-1)
    keys = direction(memory)
    seen = attend(query, keys, score="dot") if attention is None else attention(query, keys)
    return seen.weights


def interpolate(weights: Tensor, before: Tensor, gate: Tensor) -> Tensor:
    """Between weights by content and those of the step before, (..., n) each, by gates (...)."""
    gate = gate.unsqueeze(-1)
    return gate * weights + (1 - gate) * before


def shift(weights: Tensor, shifts: Tensor) -> Tensor:
    """Weights (..., n) moved by each of −r, …, r locations with the probabilities `shifts` (..., 2r + 1)."""
    most = shifts.shape[-1] // 2
    moved = [weights.roll(by, -1) * shifts[..., by + most, None] for by in range(-most, most + 1)]
    return torch.stack(moved).sum(0)


def sharpen(weights: Tensor, sharpness: Tensor) -> Tensor:
    """w^γ / Σ w^γ of weights (..., n), γ (...): as softmax(γ log w), which never divides by 0."""
    logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    logs = logs - logs.amax(-1, keepdim=True).detach()
    return (sharpness.clamp(max=LARGEST).unsqueeze(-1) * logs).softmax(-1)


def address(where: Address, memory: Tensor, before: Tensor, attention: Attention | None = None) -> Tensor:
    """All four steps: weights (..., h, n) of h heads over a memory (..., n, d), given those before."""
    found = content(where.key, where.strength, memory, attention)
    found = interpolate(found, before, where.gate)
    return sharpen(shift(found, where.shifts), where.sharpness)


def read(weights: Tensor, memory: Tensor) -> Tensor:
    """What h heads with weights (..., h, n) read from a memory (..., n, d): (..., h, d)."""
    return weights @ memory


def write(memory: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """A memory (..., n, d) after heads with weights (..., h, n) have erased and added, (..., h, d) each.

    Erase is in [0, 1]. All erase before any adds, so that the order of heads does not matter.
    """
    kept = 1 - weights.unsqueeze(-1) * erase.unsqueeze(-2)  # (..., h, n, d)
    left = kept.squeeze(-3) if kept.shape[-3] == 1 else kept.prod(-3)
    return memory * left + weights.transpose(-1, -2) @ add
