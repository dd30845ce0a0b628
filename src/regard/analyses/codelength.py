"""Codelength: the bits needed to transmit labels to a receiver who has the hidden states.

    uniform        N log₂ K                                             uses nothing
    by frequency   −Σᵢ log₂ (count of yᵢ so far + ½)/(i − 1 + K/2)      uses the labels sent so far
    online         t₁ log₂ K − Σᵢ log₂ p_θᵢ(y_{tᵢ+1 … tᵢ₊₁} | x)          θᵢ trained on the labels up to tᵢ

The better a probe learns the labels, and the fewer examples it needs, the shorter the code. Accuracy measures
only the final quality: a large probe also learns random labels of words, but it needs many examples, and the
code is long. Labels are sent in blocks that end at 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25, 50 and 100 %
of them, in an order drawn with `seed`.

Voita & Titov (2020), "Information-Theoretic Probing with Minimum Description Length", arXiv:2003.12298, §3.2.
By frequency: Krichevsky & Trofimov (1981). The variational code is `variational.py`.
Departs from the paper: early stopping uses a tenth of the labels that were already sent, so that the code
needs no other labels; the first block has at least 20 labels, with the uniform code.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import ShapeError
from regard.core.shapes import check_float

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
HIDDEN = 128  # of the probe
BATCH, RATE = 128, 3e-3
STEPS, EPOCHS = 400, 30  # a probe is trained for at most the longer of these
EVERY, PATIENCE = 20, 4  # steps between validations (at least an epoch); how many without improvement end it
FEWEST = 20  # labels to train a probe on


@dataclass(frozen=True)
class Codelength:
    """The bits of N labels of K classes, and the accuracy of the last probe."""

    bits: float
    labels: int
    classes: int
    accuracy: float  # on labels it was not trained on (online), or was trained on (variational)
    model_bits: float = 0.0  # the part of the bits that encodes the probe itself (variational)

    @property
    def uniform(self) -> float:
        """N log₂ K."""
        return self.labels * math.log2(self.classes)

    @property
    def compression(self) -> float:
        """uniform / bits: 1 if nothing was learned."""
        return self.uniform / self.bits


def by_frequency(labels: Tensor, classes: int) -> float:
    """The bits of labels (N,) by their frequencies so far; their order does not matter."""
    labels = checked_labels(labels, classes)
    counts = torch.bincount(labels, minlength=classes).double()
    half = torch.tensor(0.5, dtype=torch.float64)
    own = (torch.lgamma(counts + half) - torch.lgamma(half)).sum()
    every = torch.lgamma(counts.sum() + classes / 2) - torch.lgamma(half * classes)
    return float((every - own) / math.log(2))


def online(
    states: Tensor, labels: Tensor, classes: int, *,
    hidden: int = HIDDEN, seed: int = 0, listen: Callable[[float], None] | None = None,
) -> Codelength:  # fmt: skip
    """The online code of labels (N,), given states (N, d), by a probe of `hidden` units, or linear if 0.

    listen is called with the share of the labels that were sent.
    """
    states, labels = checked(states, labels, classes)
    n, chance = len(labels), torch.Generator().manual_seed(seed)
    if n < 2 * FEWEST:
        raise ValueError(f"the online code needs at least {2 * FEWEST} labels to learn from; got {n}.")
    order = torch.randperm(n, generator=chance)
    states, labels = standardised(states)[order], labels[order]
    ends = sorted({end for share in SHARES if (end := math.ceil(n * share)) >= FEWEST})
    bits, right = ends[0] * math.log2(classes), 0.0
    for start, end in pairwise(ends):
        probe = trained_probe(states[:start], labels[:start], classes, hidden, chance)
        with torch.no_grad():
            logits = probe(states[start:end])
        bits += float(F.cross_entropy(logits.double(), labels[start:end], reduction="sum")) / math.log(2)
        right = float((logits.argmax(-1) == labels[start:end]).float().mean())
        if listen is not None:
            listen(end / n)
    return Codelength(bits, n, classes, right)


def trained_probe(x: Tensor, y: Tensor, classes: int, hidden: int, chance: torch.Generator) -> nn.Module:
    """A probe trained on states (t, d) and labels (t,), with early stopping on their last tenth."""
    held = max(1, len(y) // 10)
    train, valid = slice(0, len(y) - held), slice(len(y) - held, None)
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=chance)))
        probe = new_probe(x.shape[-1], classes, hidden)
        optimiser = torch.optim.Adam(probe.parameters(), RATE)
        best, kept, since = score(probe, x[valid], y[valid]), snapshot(probe), 0
        epoch = math.ceil((len(y) - held) / BATCH)
        for step in range(1, max(STEPS, EPOCHS * epoch) + 1):
            some = torch.randint(len(y) - held, (min(BATCH, len(y) - held),), generator=chance)
            optimiser.zero_grad()
            F.cross_entropy(probe(x[train][some]), y[train][some]).backward()
            optimiser.step()
            if step % max(EVERY, epoch):
                continue
            now, since = score(probe, x[valid], y[valid]), since + 1
            if now < best:
                best, kept, since = now, snapshot(probe), 0
            elif since == PATIENCE:
                break
    probe.load_state_dict(kept)
    return probe


def new_probe(width: int, classes: int, hidden: int) -> nn.Module:
    """An untrained probe; its predictions are uniform."""
    last = nn.Linear(hidden or width, classes)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), last) if hidden else last


def score(probe: nn.Module, x: Tensor, y: Tensor) -> float:
    """The loss of a probe on held-out labels."""
    with torch.no_grad():
        return float(F.cross_entropy(probe(x), y))


def snapshot(probe: nn.Module) -> dict[str, Tensor]:
    """A copy of the weights."""
    return {name: tensor.clone() for name, tensor in probe.state_dict().items()}


def standardised(states: Tensor) -> Tensor:
    """States (N, d) with mean 0 and standard deviation 1 in each coordinate; the receiver has all of them."""
    centred = states.float() - states.float().mean(0)
    return centred / centred.std(0, correction=0).clamp(min=1e-6)


def checked(states: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """States (N, d) and labels (N,), after checking that they match."""
    check_float("states", states)
    labels = checked_labels(labels, classes)
    if states.dim() != 2 or len(states) != len(labels):
        raise ShapeError(
            f"states must be (N, d) with N={len(labels)}, the number of labels; got {tuple(states.shape)}."
        )
    if not bool(states.isfinite().all()):
        raise ValueError("states must be finite; got NaN or infinity.")
    return states.detach(), labels


def checked_labels(labels: Tensor, classes: int) -> Tensor:
    """Labels (N,) from 0 to K − 1."""
    if classes < 2:
        raise ValueError(
            f"classes must be at least 2: labels that cannot differ take no bits; got {classes}."
        )
    if labels.dim() != 1 or labels.is_floating_point() or not len(labels):
        raise ShapeError(f"labels must be whole numbers (N,); got {tuple(labels.shape)} of {labels.dtype}.")
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise ValueError(
            f"labels must be from 0 to {classes - 1}; got {int(labels.min())} to {int(labels.max())}."
        )
    return labels.long()
