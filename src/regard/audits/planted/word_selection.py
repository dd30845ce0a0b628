"""Models that predict from selected words alone: hard selection, and rationalizers.

Hard selection: each of the CHOSEN words of highest score has weight 1/CHOSEN, all others 0; the output layer
is linear in the weighted hidden states, which have no context. In training, the gradient is that of softmax.

A rationalizer's selection z is shown as its attention. It has no `intervene`: z is a mask of the input, no
weight of a sum, and sums to as many words as are selected.
"""

import torch
from torch import Tensor

from regard.audits.planted.attending import Attending, Toy, fit, lengths_of, scores
from regard.audits.planted.kinds import register
from regard.audits.planted.planted_texts import Texts
from regard.audits.planted.trained_classifiers import small
from regard.models.classifiers.rationalizer import Rationalizer

CHOSEN = 4  # a text has at most so many label words
RATE_OF_WORDS = 0.15  # that a rationalizer should select


class HardSelection(Toy):
    """ŷ = W (1/CHOSEN) Σ_{chosen j} h_j + b."""

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        theta = scores(self.theta, tokens, lengths)
        best = theta.topk(min(CHOSEN, theta.shape[-1])).indices
        chosen = torch.zeros_like(theta).scatter(-1, best, 1.0) * theta.isfinite()
        hard = chosen / chosen.sum(-1, keepdim=True)
        if not self.training:
            return hard
        soft = theta.softmax(-1)
        return hard + soft - soft.detach()


@register("hard selection", faithful=True)
def hard_selection(texts: Texts) -> Attending:
    """Four words are chosen; nothing else reaches the output."""
    model = HardSelection()
    fit(model, texts, steps=400, rate=3e-2)
    return model


class Selecting(Attending):
    """A rationalizer, with its selection as attention; it has no way to predict with another."""

    intervenes = False

    def __init__(self, rationalizer: Rationalizer):
        super().__init__()
        self.rationalizer = rationalizer

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.rationalizer.selected(tokens, lengths).double()

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        logits: Tensor = self.rationalizer(tokens, lengths)
        return logits


def rationalized(name: str, texts: Texts) -> Attending:
    """A rationalizer of this name, trained."""
    model = small(name, window=1, target_rate=RATE_OF_WORDS)
    assert isinstance(model, Rationalizer)
    fit(model, texts, lambda x, n, y: model.loss(y, x, n) / len(y), steps=350, rate=1e-2)
    selecting = Selecting(model)
    selected = selecting.weights(texts.test, lengths_of(texts.test))
    selecting.facts["words selected"] = float(selected.mean())
    return selecting


@register("rationalizer, HardKuma", faithful=True)
def hardkuma(texts: Texts) -> Attending:
    """A rationalizer that samples the words its predictor sees; the selection is shown."""
    return rationalized("rationalizer_hardkuma", texts)


@register("rationalizer, entmax", faithful=True)
def entmax(texts: Texts) -> Attending:
    """A deterministic rationalizer; the selection is shown."""
    return rationalized("rationalizer_entmax", texts)
