"""Models with decoy attention: the weights that are shown contribute nothing, or next to nothing.

ignored      ŷ = W mean(h) + b        the weights are random, or learned by an output that is never used
hidden       ŷ = W [Σ_j α_j h_j; Σ_j β_j h_j] + b        α, frozen and random, is shown; β is learned
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.audits.planted.attending import WIDTH, Answer, Attending, Toy, context, fit, of_words, scores
from regard.audits.planted.kinds import register
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


@register("ignored, random", faithful=False)
def ignored_random(texts: Texts) -> Attending:
    """The output comes from the mean of the states; the weights shown are random."""
    model = Ignoring(SHARP)
    model.theta.requires_grad_(False)
    fit(model, texts, steps=300)
    return model


@register("ignored, trained", faithful=False)
def ignored_trained(texts: Texts) -> Attending:
    """The same, with weights trained separately to lie on the words that tell the class."""
    model = Ignoring(0.1)

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        states = model.states(tokens).detach()  # the gradient of the unused logits reaches the scores alone
        unused = model.unused(context(model.weights(tokens, lengths), states))
        return F.cross_entropy(model(tokens, lengths), wanted) + F.cross_entropy(unused, wanted)

    fit(model, texts, loss, steps=300)
    model.facts["mass on label words"] = model.mass(texts)
    return model


class Hidden(Toy):
    """Two attentions; the one that is shown is never trained."""

    def __init__(self) -> None:
        Attending.__init__(self)
        self.bounded, self.E = True, of_words(WIDTH, 0.1)
        self.theta, self.beta = of_words(1, SHARP).requires_grad_(False), of_words(1, 0.1)
        self.read = nn.Linear(2 * WIDTH, 2)

    def prepared(self, tokens: Tensor, lengths: Tensor) -> Answer:
        states = self.states(tokens)
        used = context(scores(self.beta, tokens, lengths).softmax(-1), states)
        return lambda weights: self.read(torch.cat([context(weights, states), used], -1))


@register("hidden", faithful=False)
def hidden(texts: Texts) -> Attending:
    """Frozen random weights are shown; a second attention, that is not, does the work."""
    model = Hidden()
    fit(model, texts, steps=300)
    model.facts["mass on label words"] = model.mass(texts)
    return model
