"""Adversary: are there very different weights with which the model predicts the same?

    for each text    max_α̃ JSD(α̃, α)    such that    TVD(ŷ(α̃), ŷ) ≤ ε

    value = share of texts with weights of JSD > ½ that keep the prediction
    baseline = 1, that of a model that does not use its weights

The search is gradient descent on −JSD + λ max(0, TVD − ε); of all weights on the way that keep the prediction
the most different ones are taken. Besides, weights are drawn: shuffles and single tokens; where predictions
have no gradient in the weights, these alone. The JSD is the mean over queries, at most ln 2.

Jain & Wallace (2019), arXiv:1902.10186, §4.2.2, with ε = 0.05 for classes. (One lecture's slide maximises
f_α̃(x), which is not the objective.)
"""

import math
from typing import Any

import torch
from torch import Tensor

from regard.audits.measures import jsd, shuffled, tvd
from regard.audits.register import Finding, register
from regard.tasks.case import Case, CaseBatch

FAR = 0.5  # weights with a JSD above it are very different
SHORT, LONG = 5, 40  # words of a text that is shown


@register("hard to manipulate", better="lower")
def adversary(
    case: Case, *, epsilon: float = 0.05, steps: int = 300, draws: int = 100, seed: int = 0
) -> Finding:
    """Search for other weights with the same prediction."""
    case.require_intervention()
    generator = torch.Generator().manual_seed(seed)
    pairs: list[tuple[float, dict[str, Any]]] = []

    def most_different(batch: CaseBatch) -> Tensor:
        search = Search(batch, epsilon, generator)
        search.draw(draws)
        if case.differentiable:
            search.descend(steps)
        pairs.append(search.pair(case))
        return search.best

    found = case.each(most_different)[case.longer]
    says = (
        f"share of texts where weights of JSD > {FAR} keep the prediction (TVD ≤ {epsilon}); "
        "baseline: of a model that ignores its weights"
    )
    details = {
        "mean JSD": found.mean(),
        "largest possible": math.log(2),
        "search": "gradient" if case.differentiable else "drawn",
        "JSD": found,
        "pair": max(pairs, key=lambda pair: pair[0])[1],
    }
    return Finding.of(found > FAR, 1.0, says, seed, details)


class Search:
    """Looks for weights of the texts of a batch that keep the predictions; `best` is the largest JSD (b,)."""

    def __init__(self, batch: CaseBatch, epsilon: float, generator: torch.Generator):
        self.batch, self.epsilon, self.generator = batch, epsilon, generator
        self.mass = batch.weights.sum(-1, keepdim=True)  # (b, k, 1)
        self.base = batch.weights / self.mass.clamp(min=1e-300)
        self.best = torch.zeros(len(self.base), dtype=torch.float64)
        self.weights = self.base.mean(-2)  # (b, n), those with the largest JSD
        self.predicted = batch.probabilities  # (b, classes), with them

    def consider(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """How far weights (b, k, n) are from the model's, and how far they move predictions: (b,) each."""
        far = jsd(weights, self.base).mean(-1)
        predicted = self.batch.intervene(weights * self.mass)
        moved = tvd(predicted, self.batch.probabilities)
        found = (moved <= self.epsilon) & (far > self.best)
        self.best = torch.where(found, far.detach(), self.best)
        self.weights = torch.where(found.unsqueeze(-1), weights.detach().mean(-2), self.weights)
        self.predicted = torch.where(found.unsqueeze(-1), predicted.detach(), self.predicted)
        return far, moved

    def pair(self, case: Case) -> tuple[float, dict[str, Any]]:
        """The largest JSD of a text of readable length; both weights of it, and both predictions."""
        lengths = self.batch.lengths
        readable = (lengths >= min(SHORT, int(lengths.max()))) & (lengths <= max(LONG, int(lengths.min())))
        i = int(torch.where(readable, self.best, -1.0).argmax())
        n, row, chosen = int(lengths[i]), int(self.batch.rows[i]), int(self.batch.decision[i])
        both = {"weights": self.base.mean(-2)[i, :n], "other": self.weights[i, :n]}
        said = {"weights": self.batch.probabilities[i, chosen], "other": self.predicted[i, chosen]}
        shown = {name: weights.tolist() for name, weights in both.items()}
        predicted = {name: float(probability) for name, probability in said.items()}
        pair = {
            **shown,
            "words": case.words_of(row),
            "class": case.class_name(chosen),
            "predicted": predicted,
        }
        return float(self.best[i]), pair

    def draw(self, draws: int) -> None:
        """Shuffled weights, and all weight on one token, in turns."""
        for number in range(draws):
            order = shuffled(self.batch.real, self.generator).unsqueeze(-2).expand_as(self.base)
            if number % 2:
                other = torch.zeros_like(self.base).scatter(-1, order[..., :1], 1.0)
            else:
                other = self.base.gather(-1, order)
            with torch.no_grad():
                self.consider(other)

    def descend(self, steps: int) -> None:
        """Gradient descent, from far off: the tokens in the opposite order, and some noise."""
        real = self.batch.real.unsqueeze(-2)
        order = torch.where(real, self.base, 2.0).argsort(-1).argsort(-1)  # 0 for the least weight
        start = -order.double() / self.batch.lengths.view(-1, 1, 1) * 4
        theta = (start + torch.randn(start.shape, generator=self.generator)).requires_grad_()
        optimiser = torch.optim.Adam([theta], lr=0.1)
        for _ in range(steps):
            far, moved = self.consider(theta.masked_fill(~real, -torch.inf).softmax(-1))
            loss = (-far + 10 * (moved - self.epsilon).clamp(min=0)).sum()
            (theta.grad,) = torch.autograd.grad(loss, theta)  # and of nothing else
            optimiser.step()
