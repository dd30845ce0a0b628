"""Structural biases by name, as `--bias` and a model's configuration have them.

    position              where query and key stand                       `positions/order.py`
    markov:k              where the step before looked, ±k keys           `positions/markov.py`
    fertility:k           how much each key has had so far, ±k keys       `positions/fertility.py`
    global-fertility:γ    γ times a loss on how much each key gets        `losses/global_fertility.py`
    trace:γ               γ times a bonus for two directions that agree   `losses/trace.py`, `two_way.py`

The first three are terms: inside the tanh of the additive score, as in the paper, and of an MLP; added to any
other. Markov and local fertility need the weights of the steps before, so a decoder has to go step by step.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.place import Place
from regard.models.parts.batch_rows import by_sentence
from regard.positions import Features, Fertility, Markov, Order

NAMES = ("position", "markov", "fertility", "global-fertility", "trace")
History = tuple[Tensor, ...]  # weights of the step before and of all steps, (r, n) each; () if nobody asks


@dataclass(frozen=True)
class Biases:
    """What a model is asked for; None is not."""

    position: bool = False
    markov: int | None = None
    fertility: int | None = None
    global_fertility: float | None = None
    trace: float | None = None

    @classmethod
    def of(cls, given: Sequence[str]) -> "Biases":
        """Read names with numbers, as ("position", "markov:2")."""
        found: dict[str, float] = {}
        for one in given:
            name, _, number = one.partition(":")
            if name not in NAMES:
                raise ValueError(f"bias must be one of {', '.join(NAMES)}; got {one!r}.")
            if name in found:
                raise ValueError(f"bias {name} is given twice.")
            try:
                found[name] = float(number or 1)
            except ValueError:
                raise ValueError(f"a bias is given as name or name:number; got {one!r}.") from None
        windows = {name: found.get(name) for name in ("markov", "fertility")}
        for name, reach in windows.items():
            if reach is not None and not (reach >= 0 and reach == int(reach)):
                raise ValueError(f"bias {name}:k needs a whole number of keys to each side; got {reach:g}.")
        for name in ("global-fertility", "trace"):
            if name in found and not 0 < found[name] < float("inf"):
                raise ValueError(f"bias {name}:γ needs a number above 0; got {found[name]:g}.")
        markov, fertility = (None if reach is None else int(reach) for reach in windows.values())
        return cls("position" in found, markov, fertility, found.get("global-fertility"), found.get("trace"))

    def terms(self) -> list[Features]:
        """The terms of the score, new ones."""
        terms: list[Features] = [Order()] if self.position else []
        terms += [] if self.markov is None else [Markov(self.markov)]
        terms += [] if self.fertility is None else [Fertility(self.fertility)]
        return terms

    @property
    def history(self) -> bool:
        """Whether a step needs the weights of those before."""
        return self.markov is not None or self.fertility is not None

    @property
    def placed(self) -> bool:
        """Whether the score asks where things stand."""
        return self.position or self.history

    def start(self, rows: int, keys: Tensor) -> History:
        """Before the first of the steps, for keys (b, n, d)."""
        return (keys.new_zeros(rows, keys.shape[-2]),) * 2 if self.history else ()

    def place(
        self, query: Tensor, keys: Tensor, lengths: Tensor, t: int, m: int, history: History = ()
    ) -> Place | None:
        """The place of query (b, k·m, d): steps t to t + m of k hypotheses for each sentence."""
        if not self.placed:
            return None
        steps = torch.arange(t, t + m, device=query.device).repeat(query.shape[-2] // max(m, 1))
        where = Place(steps, torch.arange(keys.shape[-2], device=query.device), lengths)
        if not history:
            return where
        previous, total = (by_sentence(one.unsqueeze(-2), len(lengths)) for one in history)  # (b, k, n) each
        return replace(where, previous=previous, total=total)


def after(history: History, weights: Tensor) -> History:
    """The history (r, n) after a step with these weights (r, n)."""
    return (weights, history[1] + weights) if history else ()


class Expected(nn.Module):
    """Mean and variance of how often a source word is looked at, from its annotation (..., n, d)."""

    def __init__(self, width: int, gamma: float):
        super().__init__()
        self.gamma = gamma
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, annotations: Tensor) -> tuple[Tensor, Tensor]:
        """(..., n) each: the mean, above 0, and the variance, at least 0.01."""
        mean, variance = F.softplus(self.out(torch.tanh(self.hidden(annotations)))).unbind(-1)
        return mean, variance + 0.01


def expected_of(biases: Biases, width: int) -> Expected | None:
    """The part that global fertility needs, if it is asked for."""
    return None if biases.global_fertility is None else Expected(width, biases.global_fertility)
