"""Thinking Machines: two words, width 16, through eight heads of width 2.

All that is given has one decimal, so that Q, K and V are exact with two and can be checked by hand.
"""

from math import sqrt

import torch
from torch import Tensor
from walk_shown import blocks, numbers, table

import regard

WORDS = ["Thinking", "Machines"]


def thinking_machines() -> dict[str, str]:
    """What the page shows, by name."""
    x, *weights = (tenths(rows, 16, seed) for seed, rows in enumerate([2, 16, 16, 16, 16]))
    w_q, w_k, w_v, w_o = weights
    q, k, v = ((x @ w).unflatten(-1, (8, 2)).transpose(0, 1) for w in (w_q, w_k, w_v))  # (8, 2, 2) each
    s = q @ k.mT / sqrt(2)
    p = s.softmax(-1)
    z = p @ v
    joined = z.transpose(0, 1).flatten(1)  # (2, 16)
    seen = by_regard(x, weights)
    for found, expected in ((seen.scores, s), (seen.weights, p), (seen.context, joined @ w_o)):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    projected = zip("QKV", weights, strict=False)
    return {
        "x": table("X", x, WORDS, decimals=1),
        "weights": blocks(
            *(table(f"W_{name}", w, decimals=1) for name, w in zip("QKVO", weights, strict=True))
        ),
        "projected": blocks(*(table(f"{name} = X W_{name}", x @ w, WORDS) for name, w in projected)),
        "heads": blocks(*(head(i, (q[i], k[i], v[i], s[i], p[i], z[i])) for i in range(8))),
        "one": by_hand(q[0], k[0], v[0], s[0], p[0], z[0]),
        "joined": table("Z = [Z₁ … Z₈]", joined, WORDS),
        "output": table("Z W_O", joined @ w_o, WORDS),
        "sparse": under_sparsemax(s, p),
    }


def tenths(rows: int, columns: int, seed: int) -> Tensor:
    """Random numbers from −0.9 to 0.9 with one decimal."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 10, (rows, columns), generator=chance).double() / 10


def by_regard(x: Tensor, weights: list[Tensor]) -> regard.Attended:
    """The same by the module."""
    attention = regard.MultiHead(16, heads=8, bias=False).double()
    layers = attention.W_q, attention.W_k, attention.W_v, attention.W_o
    with torch.no_grad():
        for layer, w in zip(layers, weights, strict=True):
            layer.weight.copy_(w.T)  # nn.Linear holds the transpose
        return attention(x)


def head(i: int, matrices: tuple[Tensor, ...]) -> str:
    """Q, K, V, S, P and Z (2, 2) of a head beside each other."""
    names = "".join(f"   {name:^11}" for name in "QKVSPZ").rstrip()
    rows = [f"{word:>8}" + "".join(f"   {pair(m[j])}" for m in matrices) for j, word in enumerate(WORDS)]
    return "\n".join([f"{f'head {i + 1}':>8}{names}", *rows])


def by_hand(q: Tensor, k: Tensor, v: Tensor, s: Tensor, p: Tensor, z: Tensor) -> str:
    """One score, one weight and one context of a head, written out."""
    (a, b), (c, d) = q[0].tolist(), k[1].tolist()
    one, other = ([f"{x:.2f}" for x in row] for row in v.tolist())
    made = ", ".join(f"{x:.2f}" for x in z[0].tolist())
    return "\n".join(
        [
            "S[Thinking, Machines] = (q₁k₁ + q₂k₂) / √2",
            f"  = ({a:.2f} × {c:.2f} + {b:.2f} × {d:.2f}) / 1.4142 = {s[0, 1]:.2f}",
            "P[Thinking, Machines] = exp S[Thinking, Machines] / Σ exp S[Thinking, …]",
            f"  = exp({s[0, 1]:.2f}) / (exp({s[0, 0]:.2f}) + exp({s[0, 1]:.2f})) = {p[0, 1]:.2f}",
            "Z[Thinking] = P[Thinking, Thinking] v_Thinking + P[Thinking, Machines] v_Machines",
            f"  = {p[0, 0]:.2f} × ({', '.join(one)}) + {p[0, 1]:.2f} × ({', '.join(other)}) = ({made})",
        ]
    )


def under_sparsemax(s: Tensor, p: Tensor) -> str:
    """The weights of "Thinking" in every head under two maps."""
    sparse = regard.maps.sparsemax(s)
    lines = [f"{'':6}   {'softmax':>11}   {'sparsemax':>11}"]
    lines += [f"head {i + 1}   {pair(p[i, 0])}   {pair(sparse[i, 0], zero='0')}" for i in range(8)]
    return "\n".join(lines)


def pair(row: Tensor, zero: str | None = None) -> str:
    """Two numbers."""
    return " ".join(f"{number:>5}" for number in numbers(row, zero=zero))
