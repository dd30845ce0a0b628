"""Models whose output comes from elsewhere: attention that is shown, and does nothing or next to nothing.

ignored      ŷ = W mean(h) + b        the weights are random, or learned by a read-out nobody asks
hidden       ŷ = W [Σ_j α_j h_j; Σ_j β_j h_j] + b        α, frozen and random, is shown; β learns
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.audits.planted.handed import Answer, Looking, handed
from regard.audits.planted.part import WIDTH, Scores, States, context, mean
from regard.audits.planted.table import Made, register
from regard.audits.planted.texts import Texts, is_label_word
from regard.audits.planted.training import fit

SHARP = 4.0  # deviation of random scores: mostly one or two words have the weight


class Ignoring(Looking):
    """Reads the mean of the states; its attention has a read-out of its own, which is only trained with."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.states, self.scores = States(), Scores(scale)
        self.read, self.unasked = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 2)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.scores.weights(tokens, lengths)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        states = self.states(tokens)
        logits: Tensor = self.read(mean(states, lengths))
        return lambda weights: logits

    def aside(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits that nobody asks for; their gradient reaches the scores, and not the states."""
        found: Tensor = self.unasked(context(self.weights(tokens, lengths), self.states(tokens).detach()))
        return found


@register("ignored, random", faithful=False)
def ignored_random(texts: Texts) -> Made:
    """The output comes from the mean of the states; the weights shown are random."""
    model = Ignoring(SHARP)
    model.scores.requires_grad_(False)
    fit(model, lambda x, n, y: F.cross_entropy(model(x, n), y), texts, steps=300, rate=2e-2)
    return Made(handed(model))


@register("ignored, trained", faithful=False)
def ignored_trained(texts: Texts) -> Made:
    """The same, with weights trained aside to lie on the words that tell the class."""
    model = Ignoring(0.1)

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        logits = (model(tokens, lengths), model.aside(tokens, lengths))
        return F.cross_entropy(logits[0], wanted) + F.cross_entropy(logits[1], wanted)

    fit(model, loss, texts, steps=300, rate=2e-2)
    return Made(handed(model), {"mass on label words": mass(model, texts)})


class Hidden(Looking):
    """Two attentions; the one that is shown never learned."""

    def __init__(self) -> None:
        super().__init__()
        self.states, self.shown, self.hidden = States(), Scores(SHARP), Scores()
        self.shown.requires_grad_(False)
        self.read = nn.Linear(2 * WIDTH, 2)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.shown.weights(tokens, lengths)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        states = self.states(tokens)
        works = context(self.hidden.weights(tokens, lengths), states)
        return lambda weights: self.read(torch.cat([context(weights, states), works], -1))


@register("hidden", faithful=False)
def hidden(texts: Texts) -> Made:
    """Frozen random weights are shown; a second attention, that is not, does the work."""
    model = Hidden()
    fit(model, lambda x, n, y: F.cross_entropy(model(x, n), y), texts, steps=300, rate=2e-2)
    return Made(handed(model), {"mass on label words": mass(model, texts)})


def mass(model: Looking, texts: Texts) -> float:
    """Mean weight that is shown on the label words of a text."""
    with torch.no_grad():
        weights = model.weights(texts.test, torch.full((len(texts.test),), texts.test.shape[1]))
    return float((weights * is_label_word(texts.test)).sum(-1).mean())
