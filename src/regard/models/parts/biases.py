"""Structural alignment biases by name, as in `--bias` and a model's configuration.

    position              positions of query and key                       `positions/order.py`
    markov:k              weights of the previous step, ±k keys            `positions/markov.py`
    fertility:k           total weight of each key so far, ±k keys         `positions/fertility.py`
    global-fertility:γ    γ times a loss on the total weight of each key   `losses/global_fertility.py`
    trace:γ               γ times the agreement of two directions          `losses/trace.py`, `two_way.py`

The first three are terms of the score: inside the tanh of the additive score, as in the paper, and of an MLP;
added to any other score. Markov and fertility need the weights of earlier steps, so the decoder must run step
by step.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attended
from regard.core.place import Place
from regard.models.parts.batch_rows import by_hypothesis, by_sentence
from regard.positions import Features, Fertility, Markov, Order

NAMES = ("position", "markov", "fertility", "global-fertility", "trace")
History = tuple[Tensor, ...]  # weights of the previous step, and summed over all steps: (r, n) each; or ()


@dataclass(frozen=True)
class Biases:
    """The biases of a model; None is off."""

    position: bool = False
    markov: int | None = None
    fertility: int | None = None
    global_fertility: float | None = None
    trace: float | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> "Biases":
        """Parse names with numbers, as ("position", "markov:2")."""
        found: dict[str, float] = {}
        for one in names:
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
        """New modules for the terms of the score."""
        terms: list[Features] = [Order()] if self.position else []
        terms += [] if self.markov is None else [Markov(self.markov)]
        terms += [] if self.fertility is None else [Fertility(self.fertility)]
        return terms

    @property
    def history(self) -> bool:
        """Whether a step needs the weights of earlier steps."""
        return self.markov is not None or self.fertility is not None

    @property
    def placed(self) -> bool:
        """Whether the score uses positions or history."""
        return self.position or self.history

    def start(self, rows: int, keys: Tensor) -> History:
        """The history before the first step, for keys (b, n, d)."""
        return (keys.new_zeros(rows, keys.shape[-2]),) * 2 if self.history else ()

    def place(
        self, query: Tensor, keys: Tensor, lengths: Tensor, t: int, m: int, history: History = ()
    ) -> Place | None:
        """The positions of query (b, k·m, d): steps t to t + m of k hypotheses for each sentence."""
        if not self.placed:
            return None
        steps = torch.arange(t, t + m, device=query.device).repeat(query.shape[-2] // max(m, 1))
        where = Place(steps, torch.arange(keys.shape[-2], device=query.device), lengths)
        if not history:
            return where
        previous, total = (by_sentence(one.unsqueeze(-2), len(lengths)) for one in history)  # (b, k, n) each
        return replace(where, previous=previous, total=total)


def add_to_history(history: History, attended: Attended, rows: int) -> History:
    """The history (r, n) after a step of `rows` hypotheses."""
    if not history:
        return ()
    weights = by_hypothesis(attended.weights, rows)[:, 0]
    return weights, history[1] + weights


class ExpectedFertility(nn.Module):
    """Predicts mean and variance of the total weight of each source word from its annotation (..., n, d)."""

    def __init__(self, width: int, gamma: float):
        super().__init__()
        self.gamma = gamma
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, annotations: Tensor) -> tuple[Tensor, Tensor]:
        """(..., n) each: the mean, above 0, and the variance, at least 0.01."""
        mean, variance = F.softplus(self.out(torch.tanh(self.hidden(annotations)))).unbind(-1)
        return mean, variance + 0.01


def expected_fertility(biases: Biases, width: int) -> ExpectedFertility | None:
    """The predictor that global fertility needs; None without it."""
    return None if biases.global_fertility is None else ExpectedFertility(width, biases.global_fertility)
