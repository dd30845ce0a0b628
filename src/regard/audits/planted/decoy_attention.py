"""Models with decoy attention: the weights that are shown contribute nothing, or next to nothing.

ignored      ŷ = W mean(h) + b        the weights are random, or learned by an output that is never used
hidden       ŷ = W [Σ_j α_j h_j; Σ_j β_j h_j] + b        α, frozen and random, is shown; β is learned
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.audits.planted.attending import (
    WIDTH,
    Answer,
    Attending,
    Scores,
    States,
    Toy,
    context,
    fit,
    functions_of,
)
from regard.audits.planted.kinds import Made, register
from regard.audits.planted.planted_texts import Texts
from regard.models.classifiers.classifier_model import real

SHARP = 4.0  # deviation of random scores: mostly one or two words have the weight


class Ignoring(Toy):
    """Predicts from the mean of the hidden states; its attention feeds an output that is only trained."""

    def __init__(self, scale: float) -> None:
        super().__init__(scale=scale)
        self.unused = nn.Linear(WIDTH, 2)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        mean = real(lengths, tokens.shape[1]) / lengths.unsqueeze(-1)
        logits: Tensor = self.read(context(mean, self.states(tokens)))
        return lambda weights: logits

    def unused_logits(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits that are never used; their gradient reaches the scores, and not the hidden states."""
        found: Tensor = self.unused(context(self.weights(tokens, lengths), self.states(tokens).detach()))
        return found


@register("ignored, random", faithful=False)
def ignored_random(texts: Texts) -> Made:
    """The output comes from the mean of the states; the weights shown are random."""
    model = Ignoring(SHARP)
    model.scores.requires_grad_(False)
    fit(model, texts, steps=300)
    return Made(functions_of(model))


@register("ignored, trained", faithful=False)
def ignored_trained(texts: Texts) -> Made:
    """The same, with weights trained separately to lie on the words that tell the class."""
    model = Ignoring(0.1)

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        logits = (model(tokens, lengths), model.unused_logits(tokens, lengths))
        return F.cross_entropy(logits[0], wanted) + F.cross_entropy(logits[1], wanted)

    fit(model, texts, loss, steps=300)
    return Made(functions_of(model), {"mass on label words": model.mass(texts)})


class Hidden(Attending):
    """Two attentions; the one that is shown is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.states, self.shown, self.hidden = States(), Scores(SHARP), Scores()
        self.shown.requires_grad_(False)
        self.read = nn.Linear(2 * WIDTH, 2)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.shown.weights(tokens, lengths)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        states = self.states(tokens)
        used = context(self.hidden.weights(tokens, lengths), states)
        return lambda weights: self.read(torch.cat([context(weights, states), used], -1))


@register("hidden", faithful=False)
def hidden(texts: Texts) -> Made:
    """Frozen random weights are shown; a second attention, that is not, does the work."""
    model = Hidden()
    fit(model, texts, steps=300)
    return Made(functions_of(model), {"mass on label words": model.mass(texts)})
